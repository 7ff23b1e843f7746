"""Client for the calls of Airflow's REST API that the demo and the tests need. Standard library only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import ProxyHandler, Request, build_opener

_OPENER = build_opener(ProxyHandler({}))

Json = dict[str, Any]


class AirflowDoesNotAnswer(ConnectionError):
    """No answer from the address; a retry helps while Airflow starts."""


class AirflowRefused(RuntimeError):
    """Airflow answered with an error status; the message has its answer."""

    def __init__(self, call: str, status: int, answer: str) -> None:
        super().__init__(f"{call} → {status}: {answer[:800]}")
        self.status = status


class AirflowApi:
    """One Airflow as one user sees it.

    Args:
        timeout: seconds per call; longer than a write in Airflow waits for SQLite's lock.
    """

    def __init__(self, url: str, password_file: Path, timeout: float = 90.0, user: str = "admin") -> None:
        self._url = url.rstrip("/")
        self._password_file = password_file
        self._timeout = timeout
        self._user = user
        self._token: str | None = None

    def health(self) -> Json:
        """State of metadatabase, scheduler, triggerer and dag_processor; works without signing in."""
        return self._send("GET", "/api/v2/monitor/health", token=None, timeout=5.0)

    def serves_tasks(self) -> bool:
        """Whether the execution API, to which tasks report, is healthy; works without signing in."""
        try:
            return self._send("GET", "/execution/health", token=None, timeout=5.0).get("status") == "healthy"
        except (AirflowDoesNotAnswer, AirflowRefused):
            return False

    def dags(self) -> list[Json]:
        """Every DAG that the DAG processor has read."""
        return list(self.get("/api/v2/dags", limit=500)["dags"])

    def import_errors(self) -> list[Json]:
        """Every DAG file that could not be read, with its stack trace."""
        return list(self.get("/api/v2/importErrors", limit=100)["import_errors"])

    def unpause(self, dag_id: str) -> Json:
        """Unpause a DAG."""
        return self.call("PATCH", f"/api/v2/dags/{quote(dag_id)}", {"is_paused": False})

    def pause(self, dag_id: str) -> Json:
        """Pause a DAG: no new runs; running ones go on."""
        return self.call("PATCH", f"/api/v2/dags/{quote(dag_id)}", {"is_paused": True})

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None, logical_date: datetime | None = None) -> Json:
        """Start a manual run; the answer has its `dag_run_id`."""
        body = {"conf": dict(conf or {}), "logical_date": logical_date.isoformat() if logical_date else None}
        return self.call("POST", f"/api/v2/dags/{quote(dag_id)}/dagRuns", body)

    def dag_runs(self, dag_id: str, **filters: str) -> list[Json]:
        """Runs of a DAG, oldest first; `filters` are the API's (`state`, `run_type`, …)."""
        path = f"/api/v2/dags/{quote(dag_id)}/dagRuns"
        return self._pages(path, "dag_runs", order_by="run_after", **filters)

    def dag_run(self, dag_id: str, run_id: str) -> Json:
        """One run."""
        return self.get(f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}")

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """State of each task of a run, by task id."""
        return {one["task_id"]: one["state"] for one in self.task_instances(dag_id, run_id)}

    def task_instances(self, dag_id: str, run_id: str) -> list[Json]:
        """The task instances of a run, with try number, start, end."""
        path = f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}/taskInstances"
        return self._pages(path, "task_instances")

    def task_log(self, dag_id: str, run_id: str, task_id: str, attempt: int = 1) -> str:
        """Log of one try of a task as text; `attempt` counts from 1."""
        path = (
            f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"
            f"/taskInstances/{quote(task_id)}/logs/{attempt}"
        )
        lines = self.get(path, full_content="true").get("content", [])
        if isinstance(lines, str):
            return lines
        return "\n".join(one.get("event", "") if isinstance(one, dict) else str(one) for one in lines)

    def clear(self, dag_id: str, run_id: str) -> Json:
        """Clear all tasks of a run, so that they run again."""
        path = f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}/clear"
        return self.call("POST", path, {"dry_run": False})

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """The XCom value that a task has stored under a key."""
        path = (
            f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}"
            f"/taskInstances/{quote(task_id)}/xcomEntries/{quote(key)}"
        )
        return self.get(path, deserialize="true")["value"]

    def links(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str | None]:
        """URLs of a task's extra links, by name; None where a link leads nowhere yet."""
        path = f"/api/v2/dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}/taskInstances/{quote(task_id)}/links"
        return dict(self.get(path)["extra_links"])

    def page(self, path: str) -> str:
        """The text of a page outside of the API."""
        return self._send_text("GET", path, self.token, self._timeout)

    @property
    def token(self) -> str:
        """The bearer token of the user."""
        if self._token is None:
            self._token = self._login()
        return self._token

    def backfill(
        self, dag_id: str, start: datetime, end: datetime, reprocess: str = "none", max_active_runs: int = 1
    ) -> Json:
        """Create a backfill over the logical dates from `start` to `end`, both included."""
        body = {
            "dag_id": dag_id,
            "from_date": start.isoformat(),
            "to_date": end.isoformat(),
            "reprocess_behavior": reprocess,
            "max_active_runs": max_active_runs,
            "run_backwards": False,
            "dag_run_conf": {},
        }
        return self.call("POST", "/api/v2/backfills", body)

    def get(self, path: str, **query: Any) -> Json:
        """GET any path of the API."""
        return self.call("GET", f"{path}?{urlencode(query)}" if query else path)

    def call(self, method: str, path: str, body: Json | None = None) -> Json:
        """Call any path of the API as the user.

        Raises:
            AirflowDoesNotAnswer: no answer.
            AirflowRefused: an error status.
        """
        try:
            return self._send(method, path, self.token, self._timeout, body)
        except AirflowRefused as refused:
            if refused.status != 401:
                raise
        self._token = self._login()
        return self._send(method, path, self._token, self._timeout, body)

    def _login(self) -> str:
        password = json.loads(self._password_file.read_text())[self._user]
        credentials = {"username": self._user, "password": password}
        answer = self._send("POST", "/auth/token", None, self._timeout, credentials)
        return str(answer["access_token"])

    def _pages(self, path: str, field: str, **query: Any) -> list[Json]:
        found: list[Json] = []
        while True:
            answer = self.get(path, limit=100, offset=len(found), **query)
            found += answer[field]
            if not answer[field] or len(found) >= answer["total_entries"]:
                return found

    def _send(self, method: str, path: str, token: str | None, timeout: float, body: Json | None = None) -> Json:
        text = self._send_text(method, path, token, timeout, body)
        return dict(json.loads(text)) if text else {}

    def _send_text(self, method: str, path: str, token: str | None, timeout: float, body: Json | None = None) -> str:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._url + path, data=data, headers=headers, method=method)
        try:
            with _OPENER.open(request, timeout=timeout) as response:
                return str(response.read().decode(errors="replace"))
        except HTTPError as refused:
            answer = refused.read().decode(errors="replace")
            raise AirflowRefused(f"{method} {path}", refused.code, answer) from None
        except (URLError, OSError, HTTPException) as failure:
            raise AirflowDoesNotAnswer(f"{self._url} does not answer: {failure}") from None
