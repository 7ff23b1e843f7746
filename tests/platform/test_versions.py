"""Versions that must be the same in two places are."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

from windrow.places import PROJECT
from windrow.platform import jars


def test_the_jars_of_delta_and_spark_have_the_versions_of_the_packages() -> None:
    revisions = dict(re.findall(r'name="([\w.-]+)" rev="([\d.]+)"', jars.IVY.read_text()))
    delta = next(name for name in revisions if name.startswith("delta-spark_"))
    assert revisions[delta] == version("delta-spark")
    assert delta.split("_")[1] == ".".join(version("pyspark").split(".")[:2])
    client = next((jars.spark_home() / "jars").glob("hadoop-client-api-*.jar"))
    assert client.stem.rsplit("-", 1)[1] == revisions["hadoop-aws"]
    assert revisions["spark-sql-kafka-0-10_2.13"] == version("pyspark")


def test_delta_and_spark_are_declared_and_pinned() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = [name for names in project["optional-dependencies"].values() for name in names]
    declared = dict(name.split("==") for name in [*project["dependencies"], *extras] if "==" in name)
    assert declared["delta-spark"] == version("delta-spark")
    assert declared["pyspark"] == declared["pyspark-client"] == version("pyspark")
