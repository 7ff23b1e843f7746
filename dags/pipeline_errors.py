"""Raise one import error for all unusable pipeline files, with a line `file:line: field: what would be right` each.

Airflow disables every DAG of a file with an import error. This file has no DAG: the error is shown where people look
for it, while the DAGs of usable files, which factory.py makes, keep running.
"""

import os

from windrow.places import Places
from windrow_airflow.pipeline_files import problems


class PipelineFilesWrong(Exception):
    """Raised at import; its message is the last line of the import error, which people read."""


if wrong := problems(Places.from_env(os.environ)):
    raise PipelineFilesWrong("no DAGs are made from these pipeline files:\n" + "\n".join(wrong))
