"""Bars that show how far a loop is, in a terminal or a notebook, and how long a block takes."""

import contextlib
import sys
import time


def _amount(n: float) -> str:
    for unit in ("", "k", "M", "G"):
        if n < 1000:
            return f"{n:.0f}{unit}" if not unit else f"{n:.2f}{unit}"
        n /= 1000
    return f"{n:.2f}T"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


class tqdm:
    """for x in tqdm(list): shows how far the loop is. Without something to loop over, update() says so."""

    def __init__(self, iterable=None, desc: str = "", disable: bool | None = False, unit: str = "it", unit_scale: bool = False,
                 total: int | None = None, rate: int = 100):
        self.iterable, self.unit, self.unit_scale, self.rate = iterable, unit, unit_scale, rate
        self.disable = not sys.stderr.isatty() if disable is None else disable
        self.total = total if total is not None else len(iterable) if hasattr(iterable, "__len__") else None
        self.n = 0
        self._start, self._shown = time.perf_counter(), 0.0
        self.set_description(desc)

    def set_description(self, desc: str):
        """What stands before the bar."""
        self.desc = f"{desc}: " if desc else ""
        self._show()

    def update(self, n: int = 0, close: bool = False):
        """n more are done."""
        self.n += n
        now = time.perf_counter()
        if close or now - self._shown > 1 / self.rate:
            self._shown = now
            self._show(close)

    @staticmethod
    def write(text: str):
        """Prints a line above the bar."""
        sys.stderr.write(f"\r\033[K{text}\n")

    def close(self):
        """The bar stays as it is."""
        self.update(close=True)

    def _show(self, close=False):
        if self.disable:
            return
        past = time.perf_counter() - self._start
        speed = self.n / past if past > 0 else 0.0
        number = _amount if self.unit_scale else str
        fast = f"{_amount(speed) if self.unit_scale else f'{speed:.2f}'}{self.unit}/s"
        if self.total:
            part = min(self.n / self.total, 1.0)
            left = _clock((self.total - self.n) / speed) if speed else "?"
            filled = round(part * 24)
            text = (f"{self.desc}{part:4.0%} |{'█' * filled}{' ' * (24 - filled)}| {number(self.n)}/{number(self.total)} "
                    f"[{_clock(past)}<{left}, {fast}]")
        else:
            text = f"{self.desc}{number(self.n)} [{_clock(past)}, {fast}]"
        sys.stderr.write(f"\r\033[K{text}" + ("\n" if close else ""))
        sys.stderr.flush()

    def __iter__(self):
        if self.iterable is None:
            raise TypeError("tqdm: there is nothing to iterate over")
        for item in self.iterable:
            yield item
            self.update(1)
        self.close()

    def __len__(self):
        return self.total or 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class trange(tqdm):
    """tqdm(range(n))."""

    def __init__(self, n: int, **options):
        super().__init__(range(n), **options)


class Timing(contextlib.ContextDecorator):
    """with Timing("it took "): prints how long a block took."""

    def __init__(self, prefix: str = "", on_exit=None, enabled: bool = True):
        self.prefix, self.on_exit, self.enabled = prefix, on_exit, enabled

    def __enter__(self):
        self.st = time.perf_counter_ns()
        return self

    def __exit__(self, *_):
        self.et = time.perf_counter_ns() - self.st
        if self.enabled:
            print(f"{self.prefix}{self.et * 1e-6:6.2f} ms" + (self.on_exit(self.et) if self.on_exit else ""))


__all__ = ["Timing", "tqdm", "trange"]
