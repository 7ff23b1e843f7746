"""Help that lists commands by the task that a person has at hand, with whole sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperGroup

TASKS: Mapping[str, Sequence[str]] = {
    "First steps": ("setup", "demo", "up", "down", "status", "simulate"),
    "Land and publish": ("land", "train", "clock", "publications", "health", "alerts", "metrics"),
    "Late data and decisions": ("late", "rebuild", "override", "rollback", "erase"),
    "Questions and checks": ("explain", "verify", "reconcile", "canary", "lag-impact", "summarise", "maintain"),
    "For trainers": ("snapshot", "snapshots", "export", "card"),
    "Pipeline files": ("pipeline", "scenario"),
}
"""Commands by task, in the order in which people meet them."""
_WIDTH = max(len(name) for names in TASKS.values() for name in names)
_WHOLE = 400
"""Longer than any first sentence, so that none is cut."""


class ByTask(TyperGroup):
    """A group of commands whose help has a section for each task; what has no task comes last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # Typer brings its own Click, under a private name
        """Write the sections."""
        rest = [name for name in self.list_commands(ctx) if not any(name in names for names in TASKS.values())]
        for task, names in {**TASKS, "Others": rest}.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [
                (f"{name:{_WIDTH}}", command.get_short_help_str(_WHOLE))
                for name, command in commands
                if command is not None
            ]
            if rows:
                with formatter.section(task):
                    formatter.write_dl(rows)
