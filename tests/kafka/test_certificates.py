"""A certificate that one side does not accept is refused at once and by name, not taken for a broker without an answer.

The other side is a listener of Python's own TLS: no broker is needed to refuse a handshake.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.servers.certificates import Authority
from windrow.files import write_whole
from windrow.io.landing import broker
from windrow.kafka.client import Kafka
from windrow.kafka.refusals import CertificateRefused
from windrow.outcomes import ExitCode, exit_code
from windrow.simulate import producer
from windrow.simulate.record import Message

OURS, FOREIGN = Authority("ours"), Authority("foreign")
OVER = datetime.now(UTC) - timedelta(hours=1)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Starts a TLS listener with a key and certificate; returns its address."""
    with contextlib.ExitStack() as open_sockets:

        def listen(own: str) -> str:
            (tmp_path / "listener.pem").write_text(own)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tmp_path / "listener.pem")
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=OURS.pem)
            server = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
            threading.Thread(target=_refuse_all, args=(server, context), daemon=True).start()
            return f"127.0.0.1:{server.getsockname()[1]}"

        yield listen


def _refuse_all(server: socket.socket, context: ssl.SSLContext) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as spoken:
                spoken.recv(1)


@pytest.mark.parametrize(
    ("theirs", "own"),
    [
        pytest.param(OURS.signed("broker", until=OVER), OURS.signed("sam"), id="the broker's has expired"),
        pytest.param(FOREIGN.signed("broker"), OURS.signed("sam"), id="the broker's is foreign"),
        pytest.param(OURS.signed("broker"), OURS.signed("sam", until=OVER), id="ours has expired"),
        pytest.param(OURS.signed("broker"), FOREIGN.signed("sam"), id="ours is foreign"),
        pytest.param(OURS.signed("broker"), None, id="ours is missing"),
    ],
)
def test_a_certificate_is_refused_at_once(
    listening: Callable[[str], str], tmp_path: Path, theirs: str, own: str | None
) -> None:
    lines = ["security.protocol=SSL", "ssl.truststore.type=PEM"]
    lines += [f"ssl.truststore.location={OURS.write(tmp_path / 'authority.pem')}"]
    if own:
        write_whole(tmp_path / "own.pem", own, private=True)
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={tmp_path / 'own.pem'}"]
    write_whole(tmp_path / "kafka.properties", "\n".join(lines), private=True)
    kafka = Kafka(listening(theirs), tmp_path / "kafka.properties")

    for asks in (
        lambda: broker.describe(kafka, ["topic"]),
        lambda: producer.create_topics(kafka, {"topic": 1}),
        lambda: producer.produce(kafka, [Message("topic", 0, None, b"x", 1)]),
    ):
        with pytest.raises(CertificateRefused) as refused:
            asks()
        assert exit_code(refused.value) is ExitCode.REFUSED
        assert str(tmp_path / "kafka.properties") in str(refused.value)
        assert "\n" not in str(refused.value)
