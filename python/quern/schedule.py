"""What realize() would run: a list of steps, which prints as text, and in a notebook as a table."""

import html
import re
from typing import NamedTuple


class Step(NamedTuple):
    """What it is ("kernel", "copy"), its name, its device, how many buffers it has, and why its result is kept in memory."""

    kind: str
    name: str
    device: str
    buffers: int
    reason: str = ""


def _steps(text: str) -> list[Step]:
    found: list[Step] = []
    for line in text.splitlines():
        step = re.match(r"(\w+) +(.*?) +(\S+) +(\d+) buffers?$", line)
        if step:
            kind, name, device, buffers = step.groups()
            found.append(Step(kind, name, device, int(buffers)))
        elif found:
            reason = f"{found[-1].reason} {line.strip().removeprefix('kept: ')}".strip()
            found[-1] = found[-1]._replace(reason=reason)
    return found


class Schedule(list):
    """The steps in order. As text: a line each; below a step, why its result is kept in memory."""

    def __init__(self, text: str):
        super().__init__(_steps(text))
        self._text = text

    @property
    def kernels(self) -> list[Step]:
        """The steps that are kernels."""
        return [step for step in self if step.kind == "kernel"]

    @property
    def copies(self) -> list[Step]:
        """The steps that are copies."""
        return [step for step in self if step.kind == "copy"]

    def __str__(self):
        return self._text

    __repr__ = __str__

    def _repr_html_(self):
        head = "".join(f"<th>{name}</th>" for name in Step._fields)
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in step) + "</tr>" for step in self)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


__all__ = ["Schedule", "Step"]
