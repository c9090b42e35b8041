"""Random programs for the sweep: chains of functions that quern, PyTorch and (mostly) NumPy call alike, made from a seed."""

import random

from sweep_functions import Input, Program

SHAPES = [(7,), (33,), (64, 48), (129, 65), (5, 300), (1000, 3), (4, 16, 33), (2, 3, 20, 17), (256, 256), (1, 50, 1)]

# name, function of (library, x, argument). The argument is made once, when the program is: all libraries see the same.
SAME = [  # of the same shape
    ("tanh", lambda L, x, r: L.tanh(x)), ("sin", lambda L, x, r: L.sin(x)), ("abs", lambda L, x, r: L.abs(x)),
    ("exp of -abs", lambda L, x, r: L.exp(-L.abs(x))), ("sqrt of abs", lambda L, x, r: L.sqrt(L.abs(x) + 0.1)),
    ("log of abs", lambda L, x, r: L.log(L.abs(x) + 1)), ("times", lambda L, x, r: x * r), ("plus", lambda L, x, r: x + r),
    ("square", lambda L, x, r: x * x), ("reciprocal", lambda L, x, r: 1 / (L.abs(x) + 0.5)),
    ("maximum with 0", lambda L, x, r: L.maximum(x, x * 0)), ("minus the mean", lambda L, x, r: x - L.sum(x, -1, True) / x.shape[-1]),
    ("by the greatest", lambda L, x, r: x / (L.amax(L.abs(x), -1, True) + 0.1)),
    ("softmax", lambda L, x, r: L.exp(x - L.amax(x, -1, True)) / L.sum(L.exp(x - L.amax(x, -1, True)), -1, True)),
    ("minus the first axis", lambda L, x, r: x - L.sum(x, 0, True) / x.shape[0]),
    ("roll", lambda L, x, r: L.roll(x, 1 + int(abs(r) * 3), 0)), ("roll the last", lambda L, x, r: x + L.roll(x, 2, -1)),
    ("where", lambda L, x, r: L.where(x > r, x, x * 0.1)), ("halves swapped", lambda L, x, r: L.cat([x[x.shape[0] // 2:], x[:x.shape[0] // 2]], 0)),
    ("cumsum", lambda L, x, r: x.cumsum(-1) / x.shape[-1]), ("to 0 and 1", lambda L, x, r: x * L.number(x < r)),
    ("with what came before", lambda L, x, r: x * 0.5 + L.sin(x * 2) * 0.5),
]
OTHER = [  # of another shape
    ("sum of the last", lambda L, x, r: L.sum(x, -1)), ("max of the last", lambda L, x, r: L.amax(x, -1)),
    ("sum of the first", lambda L, x, r: L.sum(x, 0)), ("turned round", lambda L, x, r: L.flipped(x, tuple(reversed(range(len(x.shape)))))),
    ("every other", lambda L, x, r: x[..., ::2]), ("without the first", lambda L, x, r: x[1:] if x.shape[0] > 1 else x),
    ("flat", lambda L, x, r: x.reshape(-1)), ("doubled", lambda L, x, r: L.cat([x, x * r], 0)), ("outer", lambda L, x, r: x[..., None] * (L.arange(3) + r)),
    ("product with itself", lambda L, x, r: x @ L.flipped(x, (1, 0)) / x.shape[1] if len(x.shape) == 2 else x),
    ("stacked", lambda L, x, r: L.stack([x, x + r], 0)),
]


def make(seed, number):
    """A program: a chain of up to twelve functions, of which some use an earlier value again."""
    rng = random.Random(seed * 1_000_003 + number)
    shape = rng.choice(SHAPES)
    steps = []
    for _ in range(rng.randint(3, 12)):
        kind = rng.choices(("same", "other", "again"), (6, 2, 1))[0]
        name, function = ("again", None) if kind == "again" else rng.choice(SAME if kind == "same" else OTHER)
        steps.append((name, function, round(rng.uniform(-1, 1), 2)))

    def run(L, first):
        values = [first]
        for name, function, number in steps:
            x = values[-1]
            if function is None:
                same = [v for v in values[:-1] if tuple(v.shape) == tuple(x.shape)]
                values.append(x + same[0] * number if same else L.tanh(x * number))
            elif not x.shape or len(x.shape) > 5 or sum(x.shape) > 3000:
                values.append(L.tanh(L.sum(x)))  # what became too large, or a number
                break
            else:
                values.append(function(L, x, number))
        return values[-1]

    grad = rng.random() < 0.4
    words = " > ".join(name for name, _, _ in steps)
    return Program(f"random {seed}:{number} of {'x'.join(map(str, shape))}{', gradient' if grad else ''}: {words}", (Input("x", shape),),
                   dict.fromkeys(("quern", "torch", *([] if grad else ["numpy"])), run), "random",
                   layout=rng.choice(("contiguous", "contiguous", "transposed", "stepped", "broadcast")), lazy=rng.random() < 0.3,
                   grad=(0,) if grad else None, loose=100)


def programs(seed, count):
    return [make(seed, number) for number in range(count)]
