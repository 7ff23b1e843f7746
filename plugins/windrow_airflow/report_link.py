"""A task's quality report, one click away: the path that its job's result names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


class ReportLink(BaseOperatorLink):
    """Set after every try of a task whose result has a `report`, also after a failed one."""

    name = "Quality report"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        report = str((getattr(operator, "result", None) or {}).get("report") or "")
        return Path(report).as_uri() if report.startswith("/") else report
