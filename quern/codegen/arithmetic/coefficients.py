"""The coefficients of the polynomials in transcendental.cpp and float64_functions.cpp.

    python3 quern/codegen/arithmetic/coefficients.py            # all of them
    python3 quern/codegen/arithmetic/coefficients.py sine_pi/2  # some

Each is a minimax fit: Remez' exchange in decimal arithmetic of 60 digits. Printed are the coefficients, rounded to float64, and the
greatest error of the polynomial that they make, relative to the function, as a power of two; the rounding of its own steps comes on top.
"""

import decimal
import math
import sys
from decimal import Decimal as D

decimal.getcontext().prec = 60
PI = D("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803483")
LN2 = D(2).ln()


# ---- functions, to 60 digits


def series(first, ratio):
    """first + first * ratio(1) + first * ratio(1) * ratio(2) + ..."""
    total = term = first
    n = 1
    while abs(term) > abs(total) * D("1e-62"):
        term *= ratio(n)
        total += term
        n += 1
    return total


def sin_over(z):  # sin(r) / r, z = r^2
    return series(D(1), lambda n: -z / ((2 * n) * (2 * n + 1)))


def log2_over(f):  # log2(1 + f) / f
    if abs(f) < D("1e-4"):
        total, power, n = D(0), D(1), 1
        while abs(power) > D("1e-62"):
            total += power / n
            power *= -f
            n += 1
        return total / LN2
    return (1 + f).ln() / (f * LN2)


# ---- the fit


def solved(rows):
    """The solution of a linear system, each row with its right side last."""
    n = len(rows)
    for i in range(n):
        pivot = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            if factor:
                rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i])]
    x = [D(0)] * n
    for i in reversed(range(n)):
        x[i] = (rows[i][n] - sum(rows[i][k] * x[k] for k in range(i + 1, n))) / rows[i][i]
    return x


class Target:
    """f on [low, high], by a polynomial; what counts is the error times weight."""

    def __init__(self, f, weight, low, high, points=400):
        # Chebyshev's points: close to each other at the ends
        self.x = [(low + high) / 2 - (high - low) / 2 * D(math.cos(math.pi * i / (points - 1))) for i in range(points)]
        self.x[0], self.x[-1] = low, high
        self.f = [f(x) for x in self.x]
        self.w = [weight(x) for x in self.x]

    def errors(self, c):
        result = []
        for x, f, w in zip(self.x, self.f, self.w):
            p = D(0)
            for a in reversed(c):
                p = p * x + a
            result.append((f - p) * w)
        return result

    def fit(self, count):
        """The best coefficients: those whose errors reach the same size with alternating signs."""
        n = len(self.x)
        at = [round((n - 1) * (1 - math.cos(math.pi * i / count)) / 2) for i in range(count + 1)]
        for _ in range(40):
            rows = [[self.x[i] ** k for k in range(count)] + [(-1) ** sign / self.w[i], self.f[i]] for sign, i in enumerate(at)]
            c = solved(rows)[:-1]
            e = self.errors(c)
            chosen = []
            for i in range(n):
                last = i == 0 or abs(e[i]) >= abs(e[i - 1]) or e[i] * e[i - 1] < 0
                next_ = i == n - 1 or abs(e[i]) >= abs(e[i + 1]) or e[i] * e[i + 1] < 0
                if not (last and next_):
                    continue
                if not chosen or (e[i] > 0) != (e[chosen[-1]] > 0):
                    chosen.append(i)
                elif abs(e[i]) > abs(e[chosen[-1]]):
                    chosen[-1] = i
            while len(chosen) > count + 1:
                chosen.pop(0 if abs(e[chosen[0]]) < abs(e[chosen[-1]]) else -1)
            if len(chosen) < count + 1 or chosen == at:
                break
            at = chosen
        return c

    def rounded(self, count):
        """The coefficients as float64, and the greatest error that is left."""
        c = [float(a) for a in self.fit(count)]
        return c, max(abs(e) for e in self.errors([D(a) for a in c]))


# ---- what is printed: the target, and how many coefficients

SMALL = D("1e-9")  # a weight instead of 0
ROOT = D(2).sqrt()


def sine(z):  # (sin(r) / r - 1) / z, z = r^2
    return series(D(-1) / 6, lambda n: -z / ((2 * n + 2) * (2 * n + 3)))


def cosine(z):  # (cos(r) - 1 + z / 2) / z^2, z = r^2
    return series(D(1) / 24, lambda n: -z / ((2 * n + 3) * (2 * n + 4)))


def exp2_over(x):  # (2^x - 1) / x
    return series(LN2, lambda n: x * LN2 / (n + 1))


def logarithm(z):  # (log((1 + s) / (1 - s)) / s - 2) / z, z = s^2
    total, power, n = D(0), D(1), 3
    while abs(power) > D("1e-62"):
        total += 2 * power / n
        power *= z
        n += 2
    return total


def sine_to(angle):
    return lambda: Target(sine, lambda z: z / sin_over(z), (angle / 15) ** 2, (angle * D("1.0000001")) ** 2)


def of_logarithm():
    return Target(log2_over, lambda f: 1 / log2_over(f), 1 / ROOT - 1, ROOT - 1)


def of_exp2():
    return Target(exp2_over, lambda x: (abs(x) + SMALL) / (x * LN2).exp(), D("-0.5"), D("0.5"))


def of_cosine():
    return Target(cosine, lambda z: z * z / (1 - z / 2 + z * z * cosine(z)), D("0.02"), (PI / 4) ** 2 * D("1.000001"))


def of_quotient():
    s = (ROOT - 1) / (ROOT + 1)
    return Target(logarithm, lambda z: z / 2, D("0.0003"), s * s * D("1.000001"))


FITS = {
    "log2 of float32: log2(1 + f) / f": (of_logarithm, 10),
    "pow of float32: log2(1 + f) / f": (of_logarithm, 14),
    "pow of float32: (2^r - 1) / r": (of_exp2, 7),
    "sin and cos of float32, sine_pi/2": (sine_to(PI / 2), 5),
    "exp2 of float64: (2^r - 1) / r": (of_exp2, 12),
    "log2 of float64: logarithm": (of_quotient, 7),
    "sin and cos of float64, sine_pi/4": (sine_to(PI / 4), 6),
    "sin and cos of float64, cosine_pi/4": (of_cosine, 6),
}


def main():
    for name, (target, count) in FITS.items():
        if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
            continue
        coefficients, error = target().rounded(count)
        print(f"{name}: error 2^{math.log2(error):.2f}")
        print("    " + ", ".join(c.hex() for c in coefficients))


if __name__ == "__main__":
    main()
