"""A task's report and its pipeline's tables, one click away, behind Airflow's own sign-in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from windrow.places import Places
from windrow_airflow.web import PREFIX

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class ReportLink(BaseOperatorLink):
    """Set after every try of a task whose result has a `report`, also after a failed one."""

    name = "Report"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        report = str((getattr(operator, "result", None) or {}).get("report") or "")
        root = Places.from_env(os.environ).home / "reports"
        if not report.startswith("/"):
            return report
        if not Path(report).is_relative_to(root):
            return ""  # nobody could open it from a browser
        return address(f"reports/{Path(report).relative_to(root).as_posix()}")


class TableLink(BaseOperatorLink):
    """The pipeline's page: its tables, publications and reports."""

    name = "Tables"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        return address(f"pipelines/{operator.pipeline}")


def address(path: str) -> str:
    """Where the browser finds a page of `web`."""
    from airflow.sdk.configuration import conf

    base = conf.get("api", "base_url", fallback="") or ""
    return f"{base.rstrip('/')}{PREFIX}/{quote(path)}"
