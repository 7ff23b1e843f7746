"""Links on a task's page to its report, its pipeline's tables and the form of an override, behind Airflow's sign-in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from windrow.places import Places
from windrow_airflow.pages.web import PREFIX

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class ReportLink(BaseOperatorLink):
    """Link to the `report` of the task's result, set after every try, failed ones included."""

    name = "Report"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the link; empty without a report, or if the report is not below the folder that `web` serves."""
        return report_address(str((getattr(operator, "result", None) or {}).get("report") or ""))


class TableLink(BaseOperatorLink):
    """Link to the pipeline's page: its tables, publications and reports."""

    name = "Tables"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the link."""
        return address(f"pipelines/{operator.pipeline}")


class OverrideLink(BaseOperatorLink):
    """Link to the DAG whose form publishes a blocked interval by a person's decision."""

    name = "Override"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the link; empty unless the task's interval is blocked and a person may publish it all the same."""
        may_override = (getattr(operator, "result", None) or {}).get("may_override")
        return f"{_base_url()}/dags/{operator.pipeline}.override" if may_override else ""


def report_address(report: str) -> str:
    """Return the address of a report for the browser, from its path; empty if it is not below the folder of `web`."""
    root = Places.from_env(os.environ).home / "reports"
    if not report.startswith("/"):
        return report
    if not Path(report).is_relative_to(root):
        return ""
    return address(f"reports/{Path(report).relative_to(root).as_posix()}")


def address(path: str) -> str:
    """Return the address of a page of `web` for the browser."""
    return f"{_base_url()}{PREFIX}/{quote(path)}"


def _base_url() -> str:
    from airflow.sdk.configuration import conf

    return (conf.get("api", "base_url", fallback="") or "").rstrip("/")
