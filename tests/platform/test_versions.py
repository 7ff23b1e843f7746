"""Versions that must be the same in two places are."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version

from packaging.requirements import Requirement

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


NAMED_BY_AIRFLOW = {
    "filelock": "3.32.7",
    "jinja2": "3.1.6",
    "prometheus-client": "0.26.0",
    "psutil": "7.2.2",
    "pyarrow": "25.0.1",
    "pydantic": "2.13.5",
    "pyyaml": "6.0.3",
    "sqlglot": "30.20.0",
}
"""Versions in Airflow's constraints file for Python 3.11, as its main branch published it on 2 October 2026."""


def test_airflows_side_allows_the_versions_that_airflows_constraints_name() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    needed = {one.name: one.specifier for one in map(Requirement, project["dependencies"])}
    refused = [name for name, given in NAMED_BY_AIRFLOW.items() if name in needed and given not in needed[name]]
    assert not refused, f"cannot be installed beside Airflow's providers: {refused}"
