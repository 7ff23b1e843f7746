"""Insert the stored results into README.md, between its two marks: `python benchmarks/report.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sustained
from common.side_by_side import RESULTS, steps_table, table

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


def section(result: Mapping[str, Any]) -> str:
    """A result as Markdown: heading, sizes and machine, tables."""
    about = ", ".join(
        f"{name} {_plain(value)}" for name, value in result["about"].items() if not isinstance(value, dict)
    )
    machine, rounds = result["machine"], result.get("rounds", 1)
    commit = result.get("commit", "an older commit")
    where = f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, at {commit}"
    times = f"{rounds} round{'s' if rounds > 1 else ''}"
    tables = (
        [table(result), steps_table(result["passes"])] if "passes" in result else [sustained.table(result["steps"])]
    )
    return "\n".join([f"### {result['name']}", "", f"{about}; {times}; {where}.", "", *tables]).rstrip()


def _plain(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def main() -> None:
    results = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("*.json"))]
    sections = "\n\n".join(section(result) for result in results if "passes" in result or "steps" in result)
    text = README.read_text()
    before, rest = text.split(BEGIN)
    README.write_text(f"{before}{BEGIN}\n\n{sections}\n\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
