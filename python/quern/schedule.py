"""What realize() would run, as text; in a notebook, as a table."""

import html
import re


class Schedule(str):
    """The steps in order, a line each; below a step, why its result is kept in memory."""

    @property
    def steps(self) -> list[dict]:
        """Of each step what it is ("kernel", "copy"), its name, its device, how many buffers it has, and why it is kept."""
        found = []
        for line in self.splitlines():
            step = re.match(r"(\w+) +(.*?) +(\S+) +(\d+) buffers?$", line)
            if step:
                kind, name, device, buffers = step.groups()
                found.append({"kind": kind, "name": name, "device": device, "buffers": int(buffers), "why": ""})
            elif found:
                found[-1]["why"] = (found[-1]["why"] + " " + line.strip().removeprefix("kept: ")).strip()
        return found

    def __repr__(self):
        return str(self)

    def _repr_html_(self):
        names = ("kind", "name", "device", "buffers", "why")
        head = "".join(f"<th>{name}</th>" for name in names)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(step[name]))}</td>" for name in names) + "</tr>" for step in self.steps)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


__all__ = ["Schedule"]
