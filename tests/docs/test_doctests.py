"""Every example in a docstring of the product is run, those of column functions in the suite's Spark session."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Iterator

import pytest

from windrow.places import PROJECT

PACKAGES = [str(PROJECT / "spark_jobs" / "windrow")]


def modules() -> Iterator[str]:
    """Names of all modules that have examples; `__main__` modules do their work when they are imported."""
    for module in pkgutil.walk_packages(PACKAGES, "windrow."):
        if not module.name.endswith("__main__") and _examples(module.name):
            yield module.name


def _examples(name: str) -> bool:
    source = pkgutil.get_loader(name).get_source(name)  # type: ignore[union-attr]
    return ">>> " in (source or "")


def needs_spark(name: str) -> bool:
    """Whether its examples show data frames."""
    return name.startswith("windrow.transforms")


@pytest.mark.parametrize("name", sorted(filter(lambda name: not needs_spark(name), modules())))
def test_examples_of_pure_modules_are_true(name: str) -> None:
    run(name, {})


@pytest.mark.spark
def test_examples_of_column_functions_are_true(spark: object) -> None:
    from pyspark.sql import functions as F

    for name in filter(needs_spark, modules()):
        run(name, {"spark": spark, "F": F})


def run(name: str, namespace: dict[str, object]) -> None:
    """Run the examples of a module; `show` ends in an empty line, which an example does not have to."""
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs=namespace, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted, f"{name} has no examples any more"
    assert not result.failed, f"{result.failed} of {result.attempted} examples of {name}: see the output"
