"""Problems of a pipeline file: the line, the field, what is wrong, and what would be right.

Every problem reads `file:line: field: what is wrong; what would be right`. An edit helps, a retry does not.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from windrow.outcomes import BadInput

Location = tuple[str | int, ...]
"""Where in the file: the keys and list positions from the top, such as `('right', 0, 'window')`."""

Finding = tuple[Location, str]
"""Location, and a message: what is wrong; what would be right."""


@dataclass(frozen=True)
class Problem:
    """One thing to change or, as a warning, to know. `line` counts from 1; 0 stands for the whole file."""

    line: int
    field: str
    message: str

    def at(self, path: Path | str | None) -> str:
        """The problem as one line that editors and terminals can jump to."""
        place = f"{path}:{self.line}" if path is not None and self.line else path
        return ": ".join(str(part) for part in (place, self.field, self.message) if part)


class PipelineInvalid(BadInput, ValueError):
    """A pipeline file that cannot be used. `str()` has one line for each problem."""

    def __init__(self, path: Path | None, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("\n".join(problem.at(path) for problem in self.problems))

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), (self.path, self.problems)


class PipelineUnknown(PipelineInvalid):
    """No file has this name. `path` is None: there is no file to edit."""


class Inconsistent(Exception):
    """Parts of a pipeline that do not fit together: pairs of a location and a message."""

    def __init__(self, findings: Sequence[tuple[Location, str]]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(f"{field_text(where)}: {message}" for where, message in findings))


def field_text(where: Location) -> str:
    """A location as people write it.

    >>> field_text(("right", 0, "window", "after"))
    'right[0].window.after'
    """
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def near_miss(wrong: str, known: Iterable[str], otherwise: str = "known") -> str:
    """Return `did you mean 'x'?` where a known name is similar, else the list of known names.

    >>> near_miss("cliks", ["clicks", "likes"])
    "did you mean 'clicks'?"
    """
    names = sorted(set(known))
    lowered = {name.lower(): name for name in names}
    near = difflib.get_close_matches(wrong[:200].lower(), lowered, n=1, cutoff=0.6)
    if near:
        return f"did you mean {lowered[near[0]]!r}?"
    listed = ", ".join(names[:30]) + (" …" if len(names) > 30 else "")
    return f"{otherwise}: {listed or 'none'}"
