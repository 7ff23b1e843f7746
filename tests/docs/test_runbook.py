"""The runbook has a row for every condition that a person on call can meet."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

from windrow.outcomes import AnotherWriter, Condition, NeedsPerson, NotReady, Refused
from windrow.places import PROJECT

ELSEWHERE = {"FigureOff"}
"""Only `windrow demo` ends with it."""


def conditions(kind: type[Condition]) -> Iterator[str]:
    """Names of the conditions of a kind, without those that only say what a machine lacks."""
    for one in kind.__subclasses__():
        if one.__module__.startswith("windrow.") and "platform" not in one.__module__:
            yield one.__name__
            yield from conditions(one)


def test_every_condition_that_needs_somebody_is_in_the_index_of_the_runbook() -> None:
    for module in pkgutil.walk_packages([str(PROJECT / "spark_jobs" / "windrow")], "windrow."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    text = (PROJECT / "dags" / "README.md").read_text()
    index = text.partition("## The message begins with")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`([A-Z][A-Za-z]+)`", index))
    needed = {name for kind in (NeedsPerson, AnotherWriter, NotReady, Refused) for name in conditions(kind)} - ELSEWHERE
    assert needed - listed == set()
