"""Jobs as tasks: exit codes, the result line, and nothing left behind by a kill. Real processes, no Spark."""

import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred

from windrow.places import Places
from windrow_airflow import job_operators
from windrow_airflow.job_operators import CheckOperator, PythonJobOperator, SparkJobOperator
from windrow_airflow.job_outcome import ResultReader
from windrow_airflow.pages.report_link import OverrideLink, ReportLink, TableLink

SUBMIT = """#!/bin/sh
# What spark-submit does with its command: options in pairs, then the script and its arguments.
echo "HOME=$SPARK_HOME CONF=$SPARK_CONF_DIR OPTIONS=$1 $2"
while [ "${1#--}" != "$1" ]; do shift 2; done
"$PYSPARK_DRIVER_PYTHON" "$@"
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A project of our own; call it with the text of a job's script."""
    scripts = tmp_path / "spark_jobs"
    scripts.mkdir()
    places = Places(home=tmp_path / "home", cache=tmp_path / "cache", project=tmp_path)
    monkeypatch.setattr(job_operators.Places, "from_env", lambda environ: places)
    binary = tmp_path / "spark" / "bin" / "spark-submit"
    binary.parent.mkdir(parents=True)
    binary.write_text(SUBMIT)
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(job_operators.jobs_side.jars, "spark_home", lambda: tmp_path / "spark")
    places.spark_conf.mkdir(parents=True)
    places.spark_properties.touch()
    monkeypatch.setenv("AIRFLOW_CONN_WINDROW_SPARK", '{"conn_type": "spark", "host": "local[1]"}')

    def write(text):
        (scripts / "run_job.py").write_text("import json, os, sys, time\nassert sys.argv.pop(1) == 'work'\n" + text)

    write.folder = tmp_path
    return write


@pytest.fixture(params=[SparkJobOperator, PythonJobOperator])
def operator(request):
    return lambda **more: request.param(task_id="work", job="work", pipeline="feed", **more)


def test_the_last_result_line_is_the_tasks_result_with_the_run_key(job, operator):
    job("print('WINDROW_RESULT {\"rows\": 1}'); print('WINDROW_RESULT {\"rows\": 2}'); print('bye')")
    assert operator(run_key="r#1").execute({}) == {"rows": 2, "run": "r#1"}


def test_a_job_gets_pipeline_run_key_and_arguments_as_they_are(job, operator):
    job("print('WINDROW_RESULT ' + json.dumps({'argv': sys.argv[1:]}))")
    task = operator(run_key="manual; rm -rf /", arguments=["--mode", "publish"])
    assert task.execute({})["argv"] == ["feed", "--run", "manual; rm -rf /", "--mode", "publish"]


def test_a_job_finds_its_home_and_the_task_that_started_it(job, operator, tmp_path):
    job(
        "names = ('WINDROW_HOME', 'WINDROW_TASK_PID')\n"
        "print('WINDROW_RESULT ' + json.dumps({name: os.environ[name] for name in names}))"
    )
    found = operator().execute({})
    assert found["WINDROW_HOME"] == str(tmp_path / "home")
    assert found["WINDROW_TASK_PID"] == str(os.getpid())


@pytest.mark.parametrize(
    ("code", "condition", "words"),
    [
        (10, AirflowSkipException, "nothing to do"),
        (20, AirflowException, "still open"),
        (30, AirflowFailException, "blocked by expectations"),
        (40, AirflowException, "another writer"),
        (2, AirflowFailException, "wrong arguments"),
        (70, AirflowFailException, "a person must look"),
        (80, AirflowFailException, "refused"),
        (1, AirflowException, "exit code 1"),
    ],
)
def test_an_exit_code_says_whether_a_retry_can_help(job, operator, code, condition, words):
    job(f"print('WINDROW_RESULT ' + json.dumps({{'message': 'because of X'}})); sys.exit({code})")
    with pytest.raises(AirflowException) as raised:
        operator().execute({})
    assert type(raised.value) is condition
    assert words in str(raised.value)
    assert "because of X" in str(raised.value)


def test_a_locked_table_is_waited_for_without_a_worker_and_without_a_retry(job, operator):
    job(
        "done = os.path.exists(sys.argv[2])\n"
        "result = {} if done else {'outcome': 'Locked', 'message': 'held by pid 7'}\n"
        "print('WINDROW_RESULT ' + json.dumps(result)); sys.exit(0 if done else 40)"
    )
    flag = job.folder / "free"
    task = operator(arguments=[str(flag)])
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})
    assert deferred.value.method_name == "try_again"
    assert deferred.value.timeout is None
    flag.touch()
    assert operator(arguments=[str(flag)]).try_again({}, event={}) == {"run": None}


def test_a_job_that_mostly_needs_no_spark_goes_on_with_it_where_it_must(job):
    job(
        "plain = os.environ.get('WINDROW_WITHOUT_SPARK')\n"
        "must = sys.argv[2] == 'must'\n"
        "print('WINDROW_RESULT ' + json.dumps({'plain': plain, 'message': 'rows are written again'}))\n"
        "sys.exit(50 if must and plain else 30 if sys.argv[2] == 'blocked' else 0)"
    )

    def found(what, **more):
        task = SparkJobOperator(task_id="work", job="work", pipeline="feed", arguments=[what], **more)
        return task.execute({})["plain"]

    assert found("may", without_first=True) == "1"
    assert found("must", without_first=True) is None
    assert found("may") is None
    with pytest.raises(AirflowFailException, match="blocked"):
        found("blocked", without_first=True)


def test_an_outdated_plan_is_not_carried_out_again(job, operator):
    job("print('WINDROW_RESULT ' + json.dumps({'outcome': 'Superseded', 'message': 'newer'})); sys.exit(40)")
    with pytest.raises(AirflowFailException, match="newer"):
        operator().execute({})


def test_a_difference_that_reconcile_finds_is_not_called_an_expectation(job, operator):
    job("print('WINDROW_RESULT ' + json.dumps({'outcome': 'NotReconciled', 'message': 'row 7'})); sys.exit(70)")
    with pytest.raises(AirflowFailException, match="a person must look: row 7"):
        operator().execute({})


def test_an_argument_that_renders_to_nothing_is_left_out(job, operator):
    job("print('WINDROW_RESULT ' + json.dumps({'argv': sys.argv[1:]}))")
    assert operator(arguments=["--a=1", "", "--b"]).execute({})["argv"] == ["feed", "--a=1", "--b"]


def test_a_blocked_job_names_the_report_and_links_it_behind_the_sign_in(job, operator, monkeypatch):
    report = job.folder / "home" / "reports" / "feed" / "data_docs" / "2026-11-01" / "index.html"
    job(
        f"result = {{'message': 'rate 0.9 above 0.5', 'report': {str(report)!r}}}\n"
        "print('WINDROW_RESULT ' + json.dumps(result))\n"
        "sys.exit(30)"
    )
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/base/")
    task = operator()
    with pytest.raises(AirflowFailException, match=r"rate 0\.9 above 0\.5.*index\.html"):
        task.execute({})
    link = ReportLink().get_link(task, ti_key=None)
    assert link == "https://airflow.example/base/windrow/reports/feed/data_docs/2026-11-01/index.html"


@pytest.mark.parametrize("report", ["", "/etc/passwd", "/home/../etc/passwd"])
def test_a_result_without_a_report_of_ours_has_no_link(job, operator, report):
    task = operator()
    task.result = {"report": report}
    assert ReportLink().get_link(task, ti_key=None) == ""


def test_every_task_links_the_pipelines_tables(operator, monkeypatch):
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://127.0.0.1:18080")
    assert TableLink().get_link(operator(), ti_key=None) == "http://127.0.0.1:18080/windrow/pipelines/feed"


def checked(job, monkeypatch, code, **result):
    """A check that has judged two intervals; returns the task, its log, and what it raised."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "http://127.0.0.1:18080")
    pages = job.folder / "home" / "reports" / "feed" / "data_docs"
    judged = [
        {"interval": "2026-11-01T00:00:00.000000Z", "verdict": "passed", "why": None, "report": str(pages / "a.html")},
        {"interval": "2026-11-01T00:10:00.000000Z", "verdict": "warned", "why": "unknown rate 24 % > 20 %",
         "report": str(pages / "b.html")},
    ]  # fmt: skip
    job(f"print('WINDROW_RESULT ' + {json.dumps(json.dumps({**result, 'judged': judged}))}); sys.exit({code})")
    task = CheckOperator(task_id="work", job="work", pipeline="feed")
    seen = []
    task.log.info = lambda text, *values: seen.append(str(text) % values if values else str(text))
    try:
        return task, seen, task.execute({})
    except AirflowFailException as error:
        return task, seen, error


@pytest.mark.parametrize(("code", "result"), [(0, {"outcome": "done"}), (30, {"outcome": "Blocked", "message": "no"})])
def test_a_check_logs_every_interval_with_verdict_and_link_whether_it_passed_or_not(job, monkeypatch, code, result):
    task, seen, ended = checked(job, monkeypatch, code, **result)
    start = "http://127.0.0.1:18080/windrow/reports/feed/data_docs"
    assert f"2026-11-01T00:00:00.000000Z: passed  {start}/a.html" in seen
    assert f"2026-11-01T00:10:00.000000Z: warned: unknown rate 24 % > 20 %  {start}/b.html" in seen
    assert [one["link"] for one in task.result["judged"]] == [f"{start}/a.html", f"{start}/b.html"]
    if not code:
        assert ended["judged"] == task.result["judged"]


@pytest.mark.parametrize(
    ("code", "more", "link"),
    [
        (
            30,
            {"outcome": "Blocked", "message": "no", "may_override": True},
            "http://127.0.0.1:18080/dags/feed.override",
        ),
        (30, {"outcome": "Blocked", "message": "no", "may_override": False}, ""),
        (0, {"outcome": "done"}, ""),
    ],
)
def test_a_blocked_check_links_the_form_of_an_override_where_one_is_possible(job, monkeypatch, code, more, link):
    task, _, _ = checked(job, monkeypatch, code, **more)
    assert OverrideLink().get_link(task, ti_key=None) == link


def test_output_that_is_not_utf8_is_no_failure(job, operator):
    job(r"sys.stdout.buffer.write(b'\xff\xfe\n'); print('WINDROW_RESULT {}')")
    assert operator().execute({}) == {"run": None}


def test_a_published_interval_tells_the_asset_number_counts_and_verdict(job, operator):
    row = {"number": 3, "interval": "2026-11-01T00:00:00Z", "rows": 9, "verdict": "passed"}
    job(f"print('WINDROW_RESULT ' + json.dumps({{'publications': [{row}]}}))")
    asset = Asset("a", uri="windrow://tables/feed/training")

    class Event:
        extra = None

    events = {asset: Event()}
    operator(outlets=[asset]).execute({"outlet_events": events})
    assert events[asset].extra == {"publications": [row], "newest": row}


def test_a_kill_ends_the_whole_process_tree(job, operator, tmp_path):
    pids = tmp_path / "pids"
    job(
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)"
    )
    task = operator()
    ended = []

    def run():
        try:
            task.execute({})
        except AirflowException as error:
            ended.append(str(error))

    running = threading.Thread(target=run)
    running.start()
    deadline = time.monotonic() + 30
    while not (pids.exists() and len(pids.read_text().split()) == 2):
        assert time.monotonic() < deadline, "the job did not start"
        time.sleep(0.05)
    started = [int(pid) for pid in pids.read_text().split()]
    task.on_kill()
    running.join(30)
    assert not running.is_alive()
    assert ended
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in started)


TASK = """
import sys
from pathlib import Path
from windrow.places import Places
from windrow_airflow import job_operators
project = Path(sys.argv[1])
job_operators.Places.from_env = lambda environ: Places(home=project / "home", cache=project / "cache", project=project)
job_operators.PythonJobOperator(task_id="work", job="work", pipeline="feed").execute({})
"""


def test_a_job_without_spark_leaves_when_its_task_was_killed_hard(job, tmp_path):
    pid = tmp_path / "pid"
    job(f"open({str(pid)!r}, 'w').write(str(os.getpid()) + '.'); time.sleep(600)")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    task = subprocess.Popen([sys.executable, "-c", TASK, str(tmp_path)], env=environ, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: pid.exists() and pid.read_text().endswith("."), "the job runs")
    finally:
        task.kill()
        task.wait()
    wait_until(lambda: not psutil.pid_exists(int(pid.read_text()[:-1])), "the job has left")


def wait_until(holds, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


def test_spark_gets_master_home_and_one_conf_folder(job, tmp_path, caplog):
    job("print('WINDROW_RESULT {}')")
    task = SparkJobOperator(task_id="work", job="work", pipeline="feed")
    seen = []
    task.log.info = lambda text, *values: seen.append(str(text) % values if values else str(text))
    task.execute({})
    command = [task._spark_binary, *task.application_args]
    assert command[0] == str(tmp_path / "spark" / "bin" / "spark-submit")
    assert task._hook._connection["master"] == "local[1]"
    folder, file = Path(task.properties_file).parent, Path(task.properties_file).name
    assert (folder.parent, file) == (tmp_path / "cache" / "spark", "spark-defaults.conf")
    assert task.env_vars["PYSPARK_DRIVER_PYTHON"] == task.env_vars["PYSPARK_PYTHON"] == sys.executable
    assert task.durable is False


def test_without_the_connection_it_fails_at_once_and_does_not_submit_to_yarn(job, monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_WINDROW_SPARK")
    job("print('WINDROW_RESULT {}')")
    with pytest.raises(AirflowFailException, match="AIRFLOW_CONN_WINDROW_SPARK"):
        SparkJobOperator(task_id="work", job="work", pipeline="feed").execute({})


def test_a_driver_elsewhere_is_refused_before_anything_is_submitted(job, monkeypatch):
    job("print('WINDROW_RESULT {}')")
    spark = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "client"}}
    monkeypatch.setenv("AIRFLOW_CONN_WINDROW_SPARK", json.dumps(spark))
    assert SparkJobOperator(task_id="work", job="work", pipeline="feed").execute({}) == {"run": None}
    spark["extra"]["deploy-mode"] = "cluster"
    monkeypatch.setenv("AIRFLOW_CONN_WINDROW_SPARK", json.dumps(spark))
    with pytest.raises(AirflowFailException, match='set "client"'):
        SparkJobOperator(task_id="work", job="work", pipeline="feed").execute({})


def test_nothing_of_this_machine_is_in_a_template():
    task = SparkJobOperator(task_id="work", job="work", pipeline="feed")
    assert task.template_fields == ("run_key", "arguments")


def test_a_task_says_what_is_missing_where_no_set_up_has_been_run(job, operator):
    job("print('WINDROW_RESULT {}')")
    job_operators.Places.from_env({}).spark_properties.unlink()
    with pytest.raises(AirflowFailException, match="windrow setup"):
        operator().execute({})


def test_a_result_behind_the_start_of_another_line_counts():
    reader = ResultReader()
    lines = ['26/11/01 INFO doneWINDROW_RESULT {"rows": 1} trailing\n', "WINDROW_RESULT broken\n"]
    assert list(reader.lines(lines)) == lines
    assert reader.result == {"rows": 1}
