"""Output of `windrow scenario FILE`: the scenario on a timeline, its rows, and the differences from what it expects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from windrow.scenarios.reading import read
from windrow.scenarios.rehearsal import Mismatch, Rehearsal
from windrow.scenarios.scenario import Land, Scenario
from windrow.scenarios.timeline import MARGIN, Axis


@dataclass(frozen=True)
class Report:
    """Result of one scenario. `str()` is for a terminal, `to_json` for programs."""

    path: Path
    title: str
    mismatches: tuple[Mismatch, ...]
    rows: tuple[str, ...]
    late: tuple[str, ...]
    timeline: str

    @property
    def is_as_expected(self) -> bool:
        """Whether nothing differs from what the scenario expects."""
        return not self.mismatches

    def to_json(self) -> dict[str, object]:
        """Return plain values for `--json`."""
        return {
            "scenario": self.title,
            "path": str(self.path),
            "as_expected": self.is_as_expected,
            "rows": list(self.rows),
            "late": list(self.late),
            "mismatches": [{"line": m.line, "message": m.message} for m in self.mismatches],
        }

    def __str__(self) -> str:
        found = [f"{self.path}:{m.line}: {m.message}" for m in self.mismatches]
        parts = [self.title, "", self.timeline, "", "training rows", *(f"  {row}" for row in self.rows or ("none",))]
        if self.late:
            parts += ["late ledger", *(f"  {line}" for line in self.late)]
        parts += ["", *(found or ["As expected."])]
        return "\n".join(parts)


def run_file(path: Path | str) -> Report:
    """Run one scenario file on paper.

    Raises:
        ScenarioInvalid, PipelineInvalid: the file cannot be used; the message has every problem with its line.
    """
    return run(read(Path(path)))


def run(scenario: Scenario) -> Report:
    """Run one scenario on paper."""
    rehearsal = Rehearsal(scenario)
    mismatches = rehearsal.run()
    return Report(
        path=scenario.path,
        title=scenario.title,
        mismatches=mismatches,
        rows=tuple(str(row) for row in rehearsal.rows),
        late=rehearsal.late,
        timeline=timeline(scenario),
    )


def timeline(scenario: Scenario) -> str:
    """Draw every event at its time, one line per topic and landing batch."""
    axis = Axis.of((event.at for event in scenario.events), scenario.times)
    if not axis.marks:
        return "(no events)"
    lines = [axis.ruler()]
    batch = 0
    for step in scenario.history:
        if not isinstance(step, Land):
            continue
        batch += 1
        for topic in dict.fromkeys(event.topic for event in step.events):
            here = [event for event in step.events if event.topic == topic]
            margin = f"{batch} {topic}"[: MARGIN - 1].ljust(MARGIN)
            drawn = axis.draw({event.at: "●" if topic in scenario.streams[0][1] else "◆" for event in here})
            lines.append(f"{margin}{drawn}  {' '.join(event.name for event in here)}")
    return "\n".join(lines)
