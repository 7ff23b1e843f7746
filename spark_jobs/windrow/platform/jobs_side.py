"""What starts a job: a Python, the script of all jobs, and Spark; of this environment or of another one.

Airflow's tasks need neither Spark nor Great Expectations. Where these are in an environment of their own,
WINDROW_PYTHON names its Python, and that Python is asked (`python -m windrow.platform where`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from windrow.places import Places
from windrow.platform import jars
from windrow.platform.conditions import JarsMissing, PlatformNotReady

VARIABLE = "WINDROW_PYTHON"


@dataclass(frozen=True)
class JobsSide:
    """Where jobs run."""

    python: str
    script: str
    """run_job.py"""
    spark_home: str
    properties: str
    """the spark-defaults.conf that every Spark start reads"""
    no_conf: str
    """an empty folder for SPARK_CONF_DIR"""

    def environment(self, places: Places, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables of every job, and of an engine that jobs run in, to be merged over `environ`."""
        paths = [str(Path(self.script).parent), *filter(None, [environ.get("PYTHONPATH")])]
        return {
            "WINDROW_HOME": str(places.home),
            "PYSPARK_PYTHON": self.python,
            "PYSPARK_DRIVER_PYTHON": self.python,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONUNBUFFERED": "1",
        }

    @property
    def spark_environment(self) -> dict[str, str]:
        """Further variables of jobs with Spark."""
        return {"SPARK_HOME": self.spark_home, "SPARK_CONF_DIR": self.no_conf}

    def to_json(self) -> str:
        """As a line of JSON, which `of` reads."""
        return json.dumps(asdict(self))


def here(places: Places) -> JobsSide:
    """The jobs' side in this environment.

    Raises:
        JarsMissing: PySpark is not installed here, or the set-up has not been run.
    """
    side = JobsSide(
        python=sys.executable,
        script=str(places.job_script),
        spark_home=str(jars.spark_home()),
        properties=str(places.spark_properties),
        no_conf=str(places.spark_no_conf),
    )
    if not places.spark_properties.exists():
        raise JarsMissing(
            f"Spark's configuration is not there: {side.properties}",
            "run `windrow setup` on this machine (in a checkout `make setup`), with the same WINDROW_CACHE.",
        )
    return side


def of(places: Places, environ: Mapping[str, str] = os.environ) -> JobsSide:
    """The jobs' side that WINDROW_PYTHON names, or this environment.

    Raises:
        PlatformNotReady: that Python does not start, has no Windrow, or is not set up; the message says which.
    """
    python = environ.get(VARIABLE)
    if not python:
        return here(places)
    command = [python, "-m", "windrow.platform", "where"]
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=True)
        return JobsSide(**json.loads(done.stdout.splitlines()[-1]))
    except OSError as error:
        reason = str(error)
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or error.stdout).strip()[-800:]
    except (ValueError, TypeError, IndexError):
        reason = f"it printed {done.stdout[-200:]!r}; is its Windrow of another version?"
    raise PlatformNotReady(
        f"{VARIABLE}={python} does not start jobs: {reason}",
        f"install windrow[jobs] there (`{python} -m pip install 'windrow[jobs]'`), and run its `windrow setup`.",
    )
