"""The table of exit codes in docs/ARCHITECTURE.md has every code, each once."""

from __future__ import annotations

import re
from pathlib import Path

from windrow.outcomes import ExitCode

PAGE = Path(__file__).resolve().parents[2] / "docs/ARCHITECTURE.md"


def test_every_exit_code_is_documented_once() -> None:
    section = PAGE.read_text().partition("## Exit codes")[2].partition("\n## ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)] == sorted(ExitCode)
