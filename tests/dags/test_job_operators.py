"""Jobs as tasks: exit codes, the result line, and nothing left behind by a kill. Real processes, no Spark."""

import os
import stat
import sys
import threading
import time

import psutil
import pytest
from airflow.sdk import Asset
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from windrow.places import Places
from windrow_airflow import job_operators
from windrow_airflow.job_operators import PythonJobOperator, SparkJobOperator
from windrow_airflow.job_outcome import ResultReader
from windrow_airflow.report_link import ReportLink

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
    monkeypatch.setattr(job_operators, "_spark_home", lambda: tmp_path / "spark")
    monkeypatch.setenv("AIRFLOW_CONN_WINDROW_SPARK", '{"conn_type": "spark", "host": "local[1]"}')

    def write(text):
        (scripts / "work.py").write_text("import json, os, sys, time\n" + text)

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


def test_a_blocked_job_names_the_report_and_links_it(job, operator):
    job(
        "result = {'message': 'rate 0.9 above 0.5', 'report': '/r/index.html'}\n"
        "print('WINDROW_RESULT ' + json.dumps(result))\n"
        "sys.exit(30)"
    )
    task = operator()
    with pytest.raises(AirflowFailException, match=r"rate 0\.9 above 0\.5.*/r/index\.html"):
        task.execute({})
    assert ReportLink().get_link(task, ti_key=None) == "file:///r/index.html"


def test_a_result_without_a_report_has_no_link(job, operator):
    assert ReportLink().get_link(operator(), ti_key=None) == ""


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
    assert events[asset].extra == {"publications": [row]}


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


def test_spark_gets_master_home_and_one_conf_folder(job, tmp_path, caplog):
    job("print('WINDROW_RESULT {}')")
    task = SparkJobOperator(task_id="work", job="work", pipeline="feed")
    seen = []
    task.log.info = lambda text, *values: seen.append(str(text) % values if values else str(text))
    task.execute({})
    command = [task._spark_binary, *task.application_args]
    assert command[0] == str(tmp_path / "spark" / "bin" / "spark-submit")
    assert task._hook._connection["master"] == "local[1]"
    assert task.env_vars["SPARK_CONF_DIR"] == str(tmp_path / "cache" / "spark" / "conf")
    assert task.env_vars["PYSPARK_DRIVER_PYTHON"] == task.env_vars["PYSPARK_PYTHON"] == sys.executable
    assert task.durable is False


def test_without_the_connection_it_fails_at_once_and_does_not_submit_to_yarn(job, monkeypatch):
    monkeypatch.delenv("AIRFLOW_CONN_WINDROW_SPARK")
    job("print('WINDROW_RESULT {}')")
    with pytest.raises(AirflowFailException, match="AIRFLOW_CONN_WINDROW_SPARK"):
        SparkJobOperator(task_id="work", job="work", pipeline="feed").execute({})


def test_nothing_of_this_machine_is_in_a_template():
    task = SparkJobOperator(task_id="work", job="work", pipeline="feed")
    assert task.template_fields == ("run_key", "arguments")


def test_spark_submit_of_the_installed_package_is_found_without_importing_it():
    home = job_operators._spark_home()
    assert (home / "bin" / "spark-submit").is_file()


def test_a_result_behind_the_start_of_another_line_counts():
    reader = ResultReader()
    lines = ['26/11/01 INFO doneWINDROW_RESULT {"rows": 1} trailing\n', "WINDROW_RESULT broken\n"]
    assert list(reader.lines(lines)) == lines
    assert reader.result == {"rows": 1}
