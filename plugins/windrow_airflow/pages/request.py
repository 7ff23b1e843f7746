"""Forms of Windrow's own pages: they start a run of a pipeline's DAG, as Airflow's form of that DAG does.

Airflow's forms cannot be filled in by a link, so a page has a form of its own, with the interval filled in.

    the page's form ──▶ same page, signed in, may trigger the DAG ──▶ the DAG's own form refuses or accepts ──▶ a run

Airflow's cookie is not sent with a POST from another site, and a browser says where a POST comes from: one that is not
from these pages is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

FORMS = ("override", "rebuild")
"""DAGs whose forms are on a page, by the last part of their name."""
LONGEST = 8192
"""Bytes of a form at most."""
_FIELDS = {"override": ("interval", "reason"), "rebuild": ("from", "to", "reason")}
_SWITCHES = {"override": (), "rebuild": ("dry_run", "all")}


class Refused(Exception):
    """A form that starts no run; `status` is that of the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def require_own_page(headers: Mapping[str, str]) -> None:
    """Refuse a form that was not sent from one of our own pages.

    Args:
        headers: of the request, with names in lower case.

    Raises:
        Refused: another site sent it, or the browser does not say which.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin", "")
    is_own = site == "same-origin" if site else bool(origin) and urlsplit(origin).netloc == headers.get("host")
    if not is_own:
        raise Refused(403, "The form was not sent from this page. Open the page again and send it from there.")


def conf_of(kind: str, body: bytes) -> dict[str, Any]:
    """Return the fields of a form as the DAG's own form takes them; an unchecked box is absent and means no.

    Args:
        kind: one of `FORMS`.
        body: of the request.

    Raises:
        Refused: there is no such form, or its text is none.
    """
    if kind not in FORMS:
        raise Refused(404, "There is no such form.")
    try:
        given = parse_qs(body.decode(), max_num_fields=20, strict_parsing=False)
    except ValueError:
        raise Refused(400, "The form cannot be read.") from None
    conf: dict[str, Any] = {field: given.get(field, [""])[0].strip() for field in _FIELDS[kind]}
    return conf | {switch: switch in given for switch in _SWITCHES[kind]}


def may_start(dag_id: str, user: Any) -> bool:
    """Return whether a person may start a run of a DAG."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

    return _is_authorized(dag_id, user, "POST", DagAccessEntity.RUN)


def may_unpause(dag_id: str, user: Any) -> bool:
    """Return whether a person may unpause a DAG."""
    return _is_authorized(dag_id, user, "PUT", None)


def _is_authorized(dag_id: str, user: Any, method: Any, entity: Any) -> bool:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
    from airflow.models.dag import DagModel

    details = DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id))
    manager = get_auth_manager()
    return bool(manager.is_authorized_dag(method=method, access_entity=entity, details=details, user=user))


def is_paused(dag_id: str) -> bool:
    """Return whether a DAG is paused, so that a run of it waits."""
    from airflow.models.dag import DagModel

    dag = DagModel.get_current(dag_id)
    return bool(dag is not None and dag.is_paused)


def wants_unpaused(body: bytes) -> bool:
    """Return whether a form that can be read asks to unpause its DAG, as Airflow's own form does."""
    return "unpause" in parse_qs(body.decode(), max_num_fields=20)


def start(dag_id: str, conf: Mapping[str, Any], user: Any, *, unpause: bool = False) -> str:
    """Start a run under a person's name, and return the path of its page.

    Args:
        unpause: unpause the DAG too, where the person may; a run of a paused one waits.

    Raises:
        Refused: the DAG's form does not accept the fields, or there is no such DAG.
    """
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.exceptions import DagNotFound, ParamValidationError
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from airflow.utils.types import DagRunTriggeredByType
    from sqlalchemy import update

    by = {"triggered_by": DagRunTriggeredByType.UI, "triggering_user_name": user.get_name()}
    try:
        with create_session() as session:
            run = trigger_dag(dag_id, conf=dict(conf), session=session, **by)
            assert run is not None
            if unpause and may_unpause(dag_id, user):
                session.execute(update(DagModel).where(DagModel.dag_id == dag_id).values(is_paused=False))
            return f"/dags/{dag_id}/runs/{quote(run.run_id, safe='')}"
    except DagNotFound:
        raise Refused(404, f"Airflow has no DAG {dag_id} yet.") from None
    except (ParamValidationError, ValueError) as wrong:
        raise Refused(400, f"No run was started: {wrong}") from None
