"""Several processes serve one port, each on a loop of its own, and end when they are told to."""

import signal
import socket
import sys
from collections.abc import Iterator

import pytest
from programs import PATIENCE, Child, command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SO_REUSEPORT, SIGTERM")


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nobody else gets meanwhile: bound, and not listened at."""
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


def asked(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
        client.sendall(b"hello\n")
        return client.makefile("rb").readline()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_processes_serve_the_port_and_end(port: int, number: signal.Signals) -> None:
    with Child(command("processes/server.py", str(port), "2", backend="asyncio"), "asyncio") as server:
        started = [server.line().split() for _ in range(2)]
        assert [words[-1] for words in started] == ["loopcore.loop"] * 2
        workers = {words[0] for words in started}
        assert len(workers) == 2
        answers = [asked(port).split() for _ in range(10)]
        assert {pid.decode() for pid, _ in answers} <= workers
        assert {word for _, word in answers} == {b"hello"}
        server.process.send_signal(number)
        assert server.process.wait(PATIENCE) == 0
