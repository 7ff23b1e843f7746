"""The examples in docstrings are true, in every module that needs no Spark."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import windrow.config
import windrow.semantics

PACKAGES = (windrow.config, windrow.semantics)
SINGLE = ("windrow.schemas", "windrow.text", "windrow.transforms.ledger.reading")
MODULES = [
    *SINGLE,
    *(found.name for package in PACKAGES for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_show(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    examples = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(examples) > 20
