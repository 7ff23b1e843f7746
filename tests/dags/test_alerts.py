"""Telling people: real mail and web servers on this machine, one message per begin and end, and none that is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowTaskTimeout
from typer.testing import CliRunner

from support.documents import parsed
from support.servers.web_server import WebServer, web_server
from windrow.config import find
from windrow.home import Home
from windrow.io.ledger import reconciled
from windrow.io.registers import alerts, clocks
from windrow.platform.processes import free_port
from windrow.semantics.alerts.conditions import Condition
from windrow_airflow.alerts import notifiers, telling
from windrow_airflow.alerts.dag import TellOperator
from windrow_airflow.alerts.messages import example

from .conftest import PROJECT
from .test_fleet import now, places, publish  # noqa: F401 - fixtures

SECRET, TEN = "t0ps3cret", timedelta(minutes=10)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """A real web server, behind the connections `hook` and `chat`."""
    with web_server() as server:
        monkeypatch.setenv("AIRFLOW_CONN_HOOK", json.dumps({"conn_type": "http", "host": server.address}))
        chat = {"conn_type": "slackwebhook", "host": f"{server.address}/services", "password": SECRET}
        monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps(chat))
        yield server


class Mails:
    """Keeps what was mailed."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - the name is aiosmtpd's
        self.received.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 OK"


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A mail server behind the connection `mail`; it runs between `start` and `stop`, and begins started."""
    from aiosmtpd.controller import Controller

    mails, port = Mails(), free_port()
    plain = {"disable_ssl": True, "disable_tls": True, "from_email": "windrow@example.org", "timeout": 5}
    more = {**plain, "retry_limit": 1}
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": more}
    monkeypatch.setenv("AIRFLOW_CONN_MAIL", json.dumps(connection))
    running: list[Controller] = []

    def start() -> None:
        running.append(Controller(mails, hostname="127.0.0.1", port=port))
        running[-1].start()

    def stop() -> None:
        running.pop().stop()

    start()
    yield SimpleNamespace(received=mails.received, start=start, stop=stop)
    while running:
        stop()


FILE = """
mail:
  class: airflow.providers.smtp.notifications.smtp.SmtpNotifier
  arguments:
    smtp_conn_id: mail
    to: oncall@example.org
    subject: "{{ alert.title }}"
    html_content: "{{ alert.html }}"
hook:
  class: airflow.providers.http.notifications.http.HttpNotifier
  arguments:
    http_conn_id: hook
    endpoint: alerts
    json: {id: "{{ alert.id }}", what: "{{ alert.event }}", text: "{{ alert.text }}", severity: "{{ alert.severity }}"}
"""


@pytest.fixture
def told(places, mail, web, now):  # noqa: F811
    """Look at `kept_back` some minutes after now, and tell; returns the round."""
    places.notifiers_file.parent.mkdir(parents=True, exist_ok=True)
    places.notifiers_file.write_text(FILE)

    def look(minutes: int = 0, names: tuple[str, ...] = ("kept_back",), only: str = "") -> telling.Round:
        known = notifiers.load(places.notifiers_file)
        known = {name: one for name, one in known.items() if only in ("", name)}
        return telling.look_and_tell(list(names), places, known, lambda: now + timedelta(minutes=minutes))

    return look


def titles(mail: Any) -> list[str]:
    return [str(one["subject"]) for one in mail.received]


BLOCKED = re.compile(r"kept_back: blocked \(20\d\d-\d\d-\d\dT\d\d:\d\d:00Z\)")


def test_a_begin_is_mailed_and_posted_once_and_so_is_its_end(told, mail, web, places, now):  # noqa: F811
    assert told().told == 2
    [first] = titles(mail)
    assert BLOCKED.fullmatch(first)
    body = mail.received[0].get_body(("html",)).get_content()
    assert "nulls of &lt;user&gt; 9 % &gt; 1 %" in body  # the cause, with its figures, escaped
    assert "windrow override kept_back --interval" in body
    assert 'href="/windrow/pipelines/kept_back"' in body.replace("\n", "").replace("http://localhost:8080", "")
    [(path, posted)] = web.posted
    assert (path, posted["what"], posted["severity"]) == ("/alerts", "begun", "error")
    assert posted["text"].startswith(first)
    assert "nulls of <user> 9 % > 1 %" in posted["text"]

    for minutes in (1, 2, 3):  # it holds at every look: nobody is told again
        assert told(minutes).told == 0
    home = Home(find("kept_back", places.pipelines), places)
    publish(home, range(14))
    assert told(4).told == 2
    assert [one.removesuffix(", over") for one in titles(mail)] == [first, first]
    over = mail.received[1].get_body(("html",)).get_content()
    assert "kept_back is healthy" in over
    assert "for 4m" in over
    assert [body["id"] for _, body in web.posted] == [posted["id"]] * 2
    assert web.posted[1][1]["what"] == "ended"
    assert told(5).told == 0


def test_alerts_of_a_pipeline_whose_file_was_taken_away_end_and_others_stay(told, mail, web, places, pipelines):  # noqa: F811
    told()
    told(names=("mute",))
    begun = len(web.posted)
    (pipelines.folder / "kept_back.yaml").unlink()
    assert told(1, names=("good",)).told == 2
    assert web.posted[begun][1]["what"] == "ended"
    assert "kept_back has no pipeline file any more" in web.posted[begun][1]["text"]
    assert told(2, names=("good",)).told == 0
    for file in pipelines.folder.glob("*.yaml"):
        file.unlink()
    assert told(3, names=()).told == 0  # no file at all: their folder is missing, not every pipeline


def test_who_could_not_be_reached_is_told_at_the_next_look_and_nobody_twice(told, mail, web, places, now):  # noqa: F811
    mail.stop()
    web.status = 500
    first = told()
    assert first.told == 0
    assert [one.partition(":")[0] for one in first.problems] == ["mail was not told", "hook was not told"]
    publish(Home(find("kept_back", places.pipelines), places), range(14))
    web.status = 200
    again = told(1)
    assert [body["what"] for _, body in web.posted] == ["begun", "ended"]  # in order, although it is over by now
    assert len(again.problems) == 1  # the end waits for its begin
    mail.start()
    assert told(2).told == 2
    assert len(titles(mail)) == 2
    assert len(web.posted) == 2
    assert told(3).told == 0


def test_an_end_is_not_told_before_its_begin(told, mail, web, places, monkeypatch):  # noqa: F811
    web.status = 500
    told()
    publish(Home(find("kept_back", places.pipelines), places), range(14))
    tell, failures = notifiers.Notifier.tell, iter([True])

    def fails_once(self: Any, saying: Any) -> None:
        web.status = 500 if next(failures, False) else 200
        tell(self, saying)

    monkeypatch.setattr(notifiers.Notifier, "tell", fails_once)
    told(1, only="hook")
    assert web.posted == []
    told(2, only="hook")
    assert [body["what"] for _, body in web.posted] == ["begun", "ended"]


def test_a_notifier_that_hangs_is_left_out_for_the_rest_of_the_round(told, mail, web, monkeypatch):
    tell, asked = notifiers.Notifier.tell, []

    def hangs(self: Any, saying: Any) -> None:
        if "smtp" in self.class_:
            asked.append(saying.title)
            raise AirflowTaskTimeout
        tell(self, saying)

    with monkeypatch.context() as patched:
        patched.setattr(notifiers.Notifier, "tell", hangs)
        done = told(names=("kept_back", "slow"))
    assert (len(asked), len(web.posted), len(done.problems)) == (1, 2, 1)
    assert told(1, names=("kept_back", "slow")).told == 2  # its messages stayed due
    assert len(titles(mail)) == 2


def test_who_was_told_right_before_a_kill_is_told_once_more_and_nobody_is_missed(told, mail, web, monkeypatch):
    from windrow.jobs.upkeep import alerts as job

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(job, "told", killed)
        with pytest.raises(KeyboardInterrupt):
            told()
    assert (len(titles(mail)), len(web.posted)) == (1, 0)
    assert told(1).told == 2
    assert (len(titles(mail)), len(web.posted)) == (2, 1)
    assert titles(mail)[0] == titles(mail)[1]
    assert told(2).told == 0


def test_a_pipeline_that_cannot_be_looked_at_keeps_no_other_from_it(told, mail, web, places, pipelines):  # noqa: F811
    broken = pipelines.folder / "good.yaml"
    broken.write_text(broken.read_text().replace("grace:", "grase:"))
    log = places.home / "tables" / "mute" / "alerts" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("{")
    done = told(names=("good", "kept_back", "mute", "slow"))
    assert done.open == {
        "good": [Condition.UNUSABLE],
        "kept_back": [Condition.BLOCKED],
        "slow": [Condition.HELD],
    }
    assert "grase" in mail.received[0].get_body(("html",)).get_content()
    [problem] = done.problems
    assert problem.startswith("mute was not looked at")


def test_retention_quarantine_and_reconcile_come_from_the_tables(told, mail, places, now):  # noqa: F811
    home = Home(find("good", places.pipelines), places)
    start, clock = home.pipeline.start, clocks.observe(home).rows[0]
    long_ago = {"landed_at": now - timedelta(hours=2), "read": 1_000, "quarantined": 900}
    clocks.record(home, 1, [{**clock, **long_ago}])
    recent = {"landed_at": now - timedelta(seconds=50), "read": 2_000, "quarantined": 950}
    offsets = {"oldest_offset": 0, "next_offset": 9, "end_offset": 9, "retention_s": 60.0}
    clocks.record(home, 2, [{**clock, **recent, **offsets}])
    outcomes = [(0, 1, "differs", 1), (1, 2, "differs", 2), (1, 2, "equal", 1), (2, 99, "differs", 1)]
    for n, number, outcome, hours in outcomes:  # the second was mended, the third replaced
        at = {"interval": start + n * TEN, "reconciled_at": now - timedelta(hours=hours)}
        reconciled.record(home, [{**at, "publication": number, "outcome": outcome, "unexplained": 2}])
    assert told(names=("good",)).open["good"] == [Condition.RETENTION, Condition.QUARANTINE, Condition.RECONCILE]
    texts = [one.get_body(("html",)).get_content().replace("=\n", "") for one in mail.received]
    assert "have not landed in 10s, at the earliest: it keeps them for 1m" in texts[0]
    assert "50 of the newest 1,000 records of good.clicks cannot be read" in texts[1]
    assert f"2 rows in 1 interval of {start:%Y-%m-%d}" in texts[2]


def test_too_much_that_waits_is_told_when_it_begins_and_when_it_ends(told, mail, web, places, pipelines, now):  # noqa: F811
    file = pipelines.folder / "good.yaml"
    file.write_text(file.read_text() + "waiting: {max_rows: 29, policy: alert}\n")
    home = Home(find("good", places.pipelines), places)
    zeros = {"epoch": 0, "partition": 0, "batch": 1, "idle": False, "next_offset": 9, "end_offset": 9}
    row = {**zeros, "landed_at": now, "newest_at": now, "landed": 0}

    def land(number: int, clock_at: datetime, landed: int) -> None:
        topics = {"good.served": landed, "good.clicks": 0}
        clocks.record(home, number, [{**row, "topic": t, "clock_at": clock_at, "landed": n} for t, n in topics.items()])

    land(1, now, landed=29)
    assert told(names=("good",)).open == {"good": []}
    land(2, now, landed=30)
    assert told(1, names=("good",)).open["good"] == [Condition.WAITING]
    body = mail.received[0].get_body(("html",)).get_content().replace("=\n", "")
    assert "30 rows &gt; max_rows 29" in body
    assert "windrow train good --interval" in body
    assert 'href="/windrow/pipelines/good"' in body.replace("\n", "").replace("http://localhost:8080", "")
    land(3, now + home.pipeline.after + home.pipeline.grace + TEN, landed=30)  # all of it has closed
    assert told(2, names=("good",)).open == {"good": []}
    assert titles(mail) == ["good: too much waits for the clock", "good: too much waits for the clock, over"]


def test_a_backlog_of_many_landings_is_seen(told, mail, places, now):  # noqa: F811
    home = Home(find("good", places.pipelines), places)
    zeros = dict.fromkeys(("epoch", "partition", "batch"), 0) | {"idle": False, "clock_at": now, "newest_at": now}
    stuck = {**zeros, "topic": "good.served", "next_offset": 5, "end_offset": 5, "retention_s": 10 * 3600.0}
    clocks.record(home, 1, [{**stuck, "landed_at": now - timedelta(hours=9)}])
    clocks.record(home, 513, [{**stuck, "end_offset": 900, "landed_at": now}])
    told(names=("good",))
    assert [one for one in titles(mail) if "retention" in one or "deleted" in one or "delete" in one], titles(mail)


def test_while_one_looks_another_leaves_the_pipeline_alone(told, mail, places):  # noqa: F811
    with alerts.looking(places, "kept_back"):
        assert told().told == 0
    assert titles(mail) == []
    assert told().told == 2


def test_of_two_that_saw_the_same_state_one_writes(places, now, told):  # noqa: F811
    from windrow.outcomes import AnotherWriter

    told()
    [one], version = alerts.known(places, "kept_back", now)
    row = {"alert": one.id, "condition": one.condition, "event": "ended", "at": now, "notifiers": ""}
    alerts.record(places, "kept_back", [row], version)
    with pytest.raises(AnotherWriter):
        alerts.record(places, "kept_back", [row], version)


def test_a_notifier_hears_of_what_its_entry_names_and_of_nothing_else(told, mail, web, places):  # noqa: F811
    entries = yaml.safe_load(FILE)
    entries["mail"]["conditions"] = ["held"]
    entries["hook"]["pipelines"] = ["kept_back", "mute"]
    places.notifiers_file.write_text(yaml.safe_dump(entries))
    told(names=("kept_back", "slow"))
    assert titles(mail) == ["slow: the clock is held"]
    assert len(web.posted) == 1
    del entries["hook"]  # what it was not told of by then is nobody's any more
    places.notifiers_file.write_text(yaml.safe_dump(entries))
    assert told(1, names=("kept_back", "slow")).problems == []


WRONG = [
    ("class: airflow.providers.smtp.notifications.smtp.Smtp", "class: "),
    ("class: airflow.sdk.DAG", "is no Airflow notifier"),
    ("clas: x", "class: Field required"),
    ("{class: airflow.providers.http.notifications.http.HttpNotifier, conditions: [late, laet]}", "conditions.1"),
    ("{class: airflow.providers.pagerduty.notifications.pagerduty.PagerdutyNotifier, "
     "arguments: {integration_key: abc}}", "a secret belongs in an Airflow connection"),
    ("{class: airflow.providers.http.notifications.http.HttpNotifier, "
     "arguments: {headers: {Authorization: Bearer abc}}}", "a secret belongs in an Airflow connection"),
    ('{class: airflow.providers.http.notifications.http.HttpNotifier, arguments: {endpoint: "{{ alert.titel }}"}}',
     "template: "),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "words"), WRONG)
def test_a_wrong_entry_is_refused_with_its_line_and_what_is_wrong(tmp_path, entry, words):
    file = tmp_path / "notifiers.yaml"
    file.write_text(f"\nmine: {entry}" if entry.startswith("{") else f"\nmine:\n  {entry}")
    with pytest.raises(notifiers.NotifiersInvalid) as wrong:
        notifiers.load(file)
    assert f"{file}:2: mine: " in str(wrong.value)
    assert words in str(wrong.value)


def test_a_template_in_a_cause_stays_text(web, tmp_path):
    """What a notifier renders is its argument, never what the argument shows."""
    from dataclasses import replace

    file = tmp_path / "notifiers.yaml"
    file.write_text(FILE.replace("endpoint: alerts", 'endpoint: "{{ alert.event }}"'))
    notifiers.load(file)["hook"].tell(replace(example(), cause="{{ 7 * 7 }}"))
    [(path, posted)] = web.posted
    assert path == "/begun"
    assert "{{ 7 * 7 }}" in posted["text"]


RUNBOOK = (PROJECT / "dags" / "README.md").read_text()
SECTION = RUNBOOK.partition("### Who is told")[2].partition("\n## ")[0]


def test_the_notifiers_of_the_runbook_work(mail, web, tmp_path, monkeypatch):
    """Mail, webhook and Slack reach their servers; PagerDuty's is elsewhere, so its request is looked at."""
    from airflow.providers.pagerduty.hooks.pagerduty_events import PagerdutyEventsHook

    file = tmp_path / "notifiers.yaml"
    file.write_text(re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)[0])
    known = notifiers.load(file)
    assert list(known) == ["mail", "webhook", "slack", "pager"]
    monkeypatch.setenv("AIRFLOW_CONN_PAGER", json.dumps({"conn_type": "pagerduty_events", "password": SECRET}))
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(PagerdutyEventsHook, "send_event", lambda self, **event: sent.append(event))
    done = telling.try_out(known, datetime.now(UTC))
    assert (done.told, done.problems) == (4, [])
    assert titles(mail) == ["[windrow] windrow: publication is late (test)"]
    assert [path for path, _ in web.posted] == ["/alerts", f"/services/{SECRET}"]
    assert "this is a test" in web.posted[1][1]["text"]
    assert (sent[0]["action"], sent[0]["dedup_key"], sent[0]["severity"]) == ("trigger", "0" * 16, "warning")


def test_every_condition_is_in_the_runbook():
    table = RUNBOOK.partition("| condition | it means | do |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [str(one) for one in Condition]


def test_the_dag_is_on_from_the_start_and_has_one_task(pipelines):
    found = DagBag(str(PROJECT / "dags")).dags["windrow.alerts"]
    assert (found.is_paused_upon_creation, found.max_active_runs, found.catchup) == (False, 1, False)
    assert [(task.task_id, task.retries) for task in found.tasks] == [("tell", 0)]


def test_the_task_asks_airflow_for_runs_and_fails_where_somebody_was_not_told(told, places, mail, web, monkeypatch):  # noqa: F811
    from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError
    from airflow.sdk.execution_time import task_runner

    dags = {"good.land": True, "good.training": False, "slow.land": False}
    failed = {"slow.land": timedelta(minutes=5), "good.training": timedelta(days=3)}

    class Comms:
        def send(self, message):
            assert message.dag_id in dags
            ago = failed.get(message.dag_id) if message.state == "failed" else timedelta(minutes=30)
            run = ago and SimpleNamespace(run_after=datetime.now(UTC) - ago, data_interval_start=None)
            return SimpleNamespace(dag_run=run)

    class Ti:
        def get_dag(self, dag_id):
            if dag_id not in dags:
                raise AirflowRuntimeError(
                    SimpleNamespace(error=SimpleNamespace(value="x"), detail={"status_code": 404})
                )
            return SimpleNamespace(is_paused=dags[dag_id])

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Comms(), raising=False)
    task = TellOperator(task_id="tell")
    done = task.execute({"ti": Ti(), "params": {}})
    assert done["open"]["slow"] == [Condition.LANDING, Condition.HELD]
    assert "good" not in done["open"]  # paused
    web.status = 500
    publish(Home(find("kept_back", places.pipelines), places), range(14))
    with pytest.raises(AirflowException, match="hook was not told: kept_back: blocked"):
        task.execute({"ti": Ti(), "params": {}})


def test_the_command_lists_open_alerts_first_with_cause_and_next_move(told, places, monkeypatch):  # noqa: F811
    from windrow.cli import app

    monkeypatch.setenv("WINDROW_TABLES", "")

    def listed(*words: str) -> str:
        ran = CliRunner().invoke(app, ["alerts", *words])
        assert ran.exit_code == 0, ran.output
        return ran.output

    assert "no alert" in listed()
    told(names=("kept_back", "slow"))
    publish(Home(find("kept_back", places.pipelines), places), range(14))
    told(1, names=("kept_back", "slow"))
    found = parsed("alerts", listed("--json"))
    assert [(one["pipeline"], one["condition"], one["ended_at"] is None) for one in found] == [
        ("slow", "held", True),
        ("kept_back", "blocked", False),
    ]
    text = listed()
    assert "slow: the clock is held, open for" in text
    assert "`windrow clock slow` shows every partition" in text
    assert "kept_back is healthy" in text
    assert listed("slow").count("kept_back") == 0
