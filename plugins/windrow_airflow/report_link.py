"""Links on a task's page to its report and to its pipeline's tables, behind Airflow's own sign-in."""

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
    """Link to the `report` of the task's result, set after every try, failed ones included."""

    name = "Report"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the link; empty without a report, or if the report is not below the folder that `web` serves."""
        report = str((getattr(operator, "result", None) or {}).get("report") or "")
        root = Places.from_env(os.environ).home / "reports"
        if not report.startswith("/"):
            return report
        if not Path(report).is_relative_to(root):
            return ""
        return address(f"reports/{Path(report).relative_to(root).as_posix()}")


class TableLink(BaseOperatorLink):
    """Link to the pipeline's page: its tables, publications and reports."""

    name = "Tables"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the link."""
        return address(f"pipelines/{operator.pipeline}")


def address(path: str) -> str:
    """Return the address of a page of `web` for the browser."""
    from airflow.sdk.configuration import conf

    base = conf.get("api", "base_url", fallback="") or ""
    return f"{base.rstrip('/')}{PREFIX}/{quote(path)}"
