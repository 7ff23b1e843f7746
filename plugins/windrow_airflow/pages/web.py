"""Windrow's pages inside Airflow, only for people who are signed in and may see the pipeline's DAGs.

    /windrow/                            every pipeline that the reader may see; ?name= and ?status= filter
    /windrow/pipelines/<name>            its state, newest intervals, clock, publications, tables and reports
    /windrow/pipelines/<name>/row        a search field for one row, and why it has its labels
    /windrow/pipelines/<name>/intervals/<start>    every plan, verdict and publication of one interval, and its forms
    /windrow/reports/<name>/<path>       a file below <home>/reports/<name>, and no other
    /windrow/metrics                     figures of the pipelines that the reader may see, as Prometheus reads them

    not signed in, or expired: 401     no right to the DAGs: 403     no such file, or one outside the root: 404

The application is made at the first request: every Airflow process imports this module, and only the API server
answers requests.
"""

# No `from __future__ import annotations`: FastAPI evaluates the routes' annotations, whose names are local to
# `_application`.
import mimetypes
import os
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from windrow.outcomes import Condition
from windrow.places import Places

PREFIX = "/windrow"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_SUFFIXES = (".html", ".svg", ".png", ".json", ".css", ".csv", ".txt")
HEADERS = {
    # Pages stand alone: whatever a report contains, the browser fetches nothing and runs no script.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
FORM_HEADERS = HEADERS | {
    # forms come back to these pages, and one that starts a run goes on to Airflow's page of it
    "Content-Security-Policy": HEADERS["Content-Security-Policy"].replace("form-action 'none'", "form-action 'self'")
}


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer a request as the ASGI application that Airflow mounts at `PREFIX`."""
    await _application()(scope, receive, send)


def report_file(reports: Path, name: str, path: str) -> Path | None:
    """Return the file below reports/`name` at a path, or None if there is no such file to show.

    A folder stands for its index.html. Links are resolved first, so one that leads out of the root is refused.
    """
    if not _NAME.fullmatch(name) or "\0" in path:
        return None
    try:
        root = (reports / name).resolve(strict=True)
        file = (root / path).resolve(strict=True)
        if file.is_dir():
            file = (file / "index.html").resolve(strict=True)
    except (OSError, ValueError):
        return None
    hidden = any(part.startswith(".") for part in Path(path).parts)
    is_shown = file.is_relative_to(root) and file.is_file() and file.suffix in _SUFFIXES
    return file if is_shown and not hidden else None


@cache
def _application() -> Any:
    from airflow.api_fastapi.core_api.security import AccessView, GetUserDep, requires_access_view
    from fastapi import Depends, FastAPI, HTTPException, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse

    from windrow.config import files_of
    from windrow.quality import html
    from windrow_airflow.pages import fleet, interval, metrics, overview, request, row

    made = FastAPI(title="Windrow", docs_url=None, redoc_url=None, openapi_url=None)

    @made.middleware("http")
    async def tell(sent: Request, answer: Any) -> Any:
        """A store that does not answer, or a damaged table, is a page with the next move, as the command says it."""
        try:
            return await answer(sent)
        except Exception as failed:
            cause = await run_in_threadpool(_cause, failed)
            if cause is None:
                raise
            page = html.render("condition.html", title="Windrow", message=f"{type(cause).__name__}: {cause}")
            return HTMLResponse(page, status_code=503, headers=HEADERS)

    # on each route: dependencies of a mounted application itself are not applied
    guarded = [Depends(requires_access_view(AccessView.WEBSITE))]

    @made.get("/", dependencies=guarded)
    def index(user: GetUserDep, name: str = "", status: str = "", refresh: str = "") -> HTMLResponse:
        places, now = Places.from_env(os.environ), datetime.now(UTC)
        names = [one for one in overview.pipelines(places) if _may_see(one, user)]
        found = fleet.look(names, places, now, fleet.runs(names, now))
        fleet.between().asked_for(names)
        wanted = fleet.Filter(name[:64], status, refresh)
        return HTMLResponse(fleet.page(found, wanted, now), headers=FORM_HEADERS)

    @made.get("/pipelines/{name}", dependencies=guarded)
    def pipeline(name: str, user: GetUserDep) -> HTMLResponse:
        places = _places_of(name, user)
        page = overview.pipeline_page(name, places, fleet.runs([name], datetime.now(UTC)))
        return HTMLResponse(page, headers=HEADERS)

    @made.get("/pipelines/{name}/intervals/{start}", dependencies=guarded)
    def one_interval(name: str, start: str, user: GetUserDep) -> HTMLResponse:
        places = _places_of(name, user)
        paused = [kind for kind in request.FORMS if request.is_paused(f"{name}.{kind}")]
        page = interval.page(name, start, places, _may_send(name, user), paused)
        if page is None:
            raise HTTPException(404, "no interval starts there")
        return HTMLResponse(page, headers=FORM_HEADERS)

    @made.post("/pipelines/{name}/intervals/{start}/{kind}", dependencies=guarded)
    async def ask(name: str, start: str, kind: str, user: GetUserDep, sent: Request) -> RedirectResponse:
        await run_in_threadpool(_places_of, name, user)
        body = await _body(sent)
        try:
            request.require_own_page(sent.headers)
            conf = request.conf_of(kind, body)
            if not await run_in_threadpool(request.may_start, f"{name}.{kind}", user):
                raise request.Refused(403, f"You may not trigger {name}.{kind}.")
            unpause = request.wants_unpaused(body)
            page = await run_in_threadpool(request.start, f"{name}.{kind}", conf, user, unpause=unpause)
        except request.Refused as refused:
            raise HTTPException(refused.status, str(refused)) from None
        return RedirectResponse(page, status_code=303)

    @made.get("/pipelines/{name}/row", dependencies=guarded)
    def empty_row(name: str, user: GetUserDep) -> HTMLResponse:
        return HTMLResponse(row.page(name, _places_of(name, user), {}), headers=FORM_HEADERS)

    @made.post("/pipelines/{name}/row", dependencies=guarded)
    async def one_row(name: str, user: GetUserDep, sent: Request) -> HTMLResponse:
        places = await run_in_threadpool(_places_of, name, user)
        given = row.given_of(await _body(sent))
        page = await run_in_threadpool(row.page, name, places, given)
        return HTMLResponse(page, headers=FORM_HEADERS | {"Cache-Control": "no-store"})

    @made.get("/reports/{name}/{path:path}", dependencies=guarded)
    def report(name: str, path: str, user: GetUserDep) -> FileResponse:
        _require(name, user)
        file = report_file(Places.from_env(os.environ).home / "reports", name, path)
        if file is None:
            raise HTTPException(404, "no such report")
        kind = mimetypes.guess_type(file.name)[0] or "text/plain"
        return FileResponse(file, media_type=kind, headers=HEADERS)

    @made.get("/metrics", dependencies=guarded)
    def figures(user: GetUserDep) -> PlainTextResponse:
        places = Places.from_env(os.environ)
        names = [one for one in overview.pipelines(places) if _may_see(one, user)]
        return PlainTextResponse(metrics.page(names, places, datetime.now(UTC)), media_type=metrics.TYPE)

    def _places_of(name: str, user: Any) -> Places:
        _require(name, user)
        places = Places.from_env(os.environ)
        if not files_of(name, places.pipelines):
            raise HTTPException(404, "no such pipeline")
        return places

    def _may_send(name: str, user: Any) -> dict[str, bool]:
        return {kind: request.may_start(f"{name}.{kind}", user) for kind in request.FORMS}

    async def _body(sent: Request) -> bytes:
        body = b""
        async for part in sent.stream():
            body += part
            if len(body) > request.LONGEST:
                raise HTTPException(413, "the form is too long")
        return body

    def _require(name: str, user: Any) -> None:
        if not _may_see(name, user):
            raise HTTPException(403, "Forbidden")

    return made


def _cause(failed: Exception) -> Condition | None:
    """The condition that an error stands for."""
    from windrow.jobs.causes import known_cause  # loads delta-rs

    return failed if isinstance(failed, Condition) else known_cause(failed)


def _may_see(name: str, user: Any) -> bool:
    """Whoever may read a pipeline's training DAG may read its reports."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from airflow.models.dag import DagModel

    dag_id = f"{name}.training"
    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    return bool(get_auth_manager().is_authorized_dag(method="GET", details=details, user=user))
