"""A process of ours is stopped whole; a process that is not ours is never touched."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from windrow.platform.conditions import DidNotStart, PortTaken
from windrow.platform.processes import MARK, Address, Background, free_port, require_port

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
# A parent that leaves a child in another session behind when it dies, as a Spark driver does.
PARENT = [
    sys.executable,
    "-c",
    "import subprocess, sys, time; "
    "sleep = [sys.executable, '-c', 'import time; time.sleep(600)']; "
    "child = subprocess.Popen(sleep, start_new_session=True); "
    "print(child.pid, flush=True); time.sleep(600)",
]
SOON = timedelta(seconds=20)


@pytest.fixture
def part(tmp_path: Path) -> Iterator[Background]:
    background = Background(tmp_path / "platform", "part")
    yield background
    background.stop()


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(SLEEP)
    yield process
    process.kill()
    process.wait()


def test_a_started_part_runs_and_a_second_start_is_the_same_process(part: Background, tmp_path: Path) -> None:
    part.start(SLEEP, os.environ, tmp_path)
    first = part.process()
    part.start(SLEEP, os.environ, tmp_path)
    assert first is not None
    assert part.process() == first
    assert part.uptime() is not None


def test_a_pid_that_belongs_to_somebody_else_now_is_not_ours_and_survives_stop(
    part: Background, stranger: subprocess.Popen[bytes]
) -> None:
    part.folder.mkdir(parents=True)
    created = psutil.Process(stranger.pid).create_time()
    part.pid_file.write_text(json.dumps({"pid": stranger.pid, "created": created - 3600}))
    assert part.process() is None
    assert part.stop() is False
    assert stranger.poll() is None
    assert not part.pid_file.exists()


UNKNOWN_PID = '{"pid": 999999999, "created": 0}'


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pid": "x", "created": 0}', UNKNOWN_PID])
def test_a_pid_file_that_says_nothing_is_stale(part: Background, tmp_path: Path, text: str) -> None:
    part.folder.mkdir(parents=True)
    part.pid_file.write_text(text)
    assert part.process() is None
    part.start(SLEEP, os.environ, tmp_path)
    assert part.process() is not None


def test_stop_ends_children_in_other_sessions_too(part: Background, tmp_path: Path) -> None:
    child = _start_with_child(part, tmp_path)
    assert part.stop() is True
    assert not child.is_running()


def test_stop_ends_orphans_of_a_part_that_was_killed(part: Background, tmp_path: Path) -> None:
    child = _start_with_child(part, tmp_path)
    leader = part.process()
    assert leader is not None
    leader.kill()
    leader.wait(10)
    assert child.is_running()
    assert part.stop() is True
    assert not child.is_running()


def test_stop_ends_a_part_that_ignores_being_asked(part: Background, tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    deaf += "print('deaf', flush=True); time.sleep(600)"
    part.start([sys.executable, "-c", deaf], os.environ, tmp_path)
    part.wait(lambda: "deaf" in part.log.read_text(), SOON, "")
    process = part.process()
    assert process is not None
    part.stop(patience=timedelta(seconds=0.2))
    assert not process.is_running()


def test_a_part_that_ends_while_starting_shows_its_last_words(part: Background, tmp_path: Path) -> None:
    part.start([sys.executable, "-c", "raise SystemExit('no room on the disk')"], os.environ, tmp_path)
    with pytest.raises(DidNotStart, match="no room on the disk"):
        part.wait(lambda: False, SOON, "make room.")


def test_a_taken_port_names_the_port_its_holder_and_the_variable() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(PortTaken) as refused:
            require_port(Address("127.0.0.1", port), "Airflow", "WINDROW_AIRFLOW_PORT")
    message = str(refused.value)
    assert f"Port {port}" in message
    assert f"pid {os.getpid()}" in message
    assert "set WINDROW_AIRFLOW_PORT" in message


def test_a_port_that_another_home_has_is_freed_by_its_own_command(tmp_path: Path) -> None:
    script = (
        "import socket, sys; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); "
        "print(s.getsockname()[1], flush=True); sys.stdin.read()"
    )
    environ = {**os.environ, MARK: f"{tmp_path}/other home/platform/kafka/kafka"}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin
        assert other.stdout
        port = int(other.stdout.readline())
        with pytest.raises(PortTaken) as refused:
            require_port(Address("127.0.0.1", port), "Kafka", "WINDROW_KAFKA")
        other.stdin.close()
    assert f"`WINDROW_HOME='{tmp_path}/other home' windrow down` stops that platform" in str(refused.value)


def test_a_free_port_is_accepted() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    require_port(Address("127.0.0.1", port), "Airflow", "WINDROW_AIRFLOW_PORT")


def test_free_ports_are_none_of_those_of_outgoing_connections_and_none_is_given_twice() -> None:
    ports = [free_port() for _ in range(40)]
    assert max(ports) + 1 < 32768
    assert len({port + own for port in ports for own in (0, 1)}) == 80


def test_four_neighbouring_ports_are_given_to_nobody_else() -> None:
    before, four, after = free_port(), free_port(2), free_port(2)
    assert four >= before + 2
    assert after >= four + 4


def test_a_port_with_a_taken_successor_is_not_free() -> None:
    expected = free_port() + 2
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", expected + 1))
        assert free_port() not in (expected, expected + 1)


@pytest.mark.parametrize("text", ["", "nine", "host:", ":9092", "host:nine"])
def test_an_address_without_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        Address.parse(text)


def _start_with_child(part: Background, cwd: Path) -> psutil.Process:
    part.start(PARENT, os.environ, cwd)
    part.wait(lambda: part.log.read_text().strip().isdigit(), SOON, "")
    return psutil.Process(int(part.log.read_text()))
