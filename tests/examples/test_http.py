"""The HTTP examples answer on every loop, many at once, and shut down without a word of complaint."""

import http.client
import json
import re
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest
from programs import EXAMPLES, LIFE, PATIENCE, Child, Ended, command, run

SERVERS = ["aiohttp", "uvicorn"]


def server(kind: str, backend: str, life: float = PATIENCE) -> Child:
    """An HTTP server on a free port; all warnings are errors in it."""
    pytest.importorskip(kind)
    if kind == "aiohttp":
        start = command("http/app_aiohttp.py", "--port", "0", backend=backend)
    else:
        pytest.importorskip("websockets")
        loop = "asyncio" if backend == "asyncio" else "loopcore:new_event_loop"
        uvicorn = [sys.executable, "-W", "error", "-m", "uvicorn", "--app-dir", str(EXAMPLES / "http"), "app_asgi:app"]
        start = [*uvicorn, "--port", "0", "--loop", loop, "--no-access-log"]
    return Child(start, backend, life=life)


def port_of(kind: str, child: Child) -> int:
    return child.port() if kind == "aiohttp" else child.port_in_log()


def complaints(ended: Ended) -> list[str]:
    """What it printed beside uvicorn's report of its own life."""
    return [line for line in (ended.out + ended.err).splitlines() if not line.startswith("INFO:")]


def read_to(connection: socket.socket, end: bytes) -> bytes:
    """What comes, up to and with `end`; it may come in any number of packets."""
    got = b""
    while not got.endswith(end):
        byte = connection.recv(1)
        assert byte, f"the connection ended after {got!r}"
        got += byte
    return got


@pytest.fixture(scope="module", params=SERVERS)
def port(request: pytest.FixtureRequest, backend_name: str) -> Iterator[int]:
    """Of a server that the tests of a backend share."""
    with server(request.param, backend_name, life=LIFE) as child:
        yield port_of(request.param, child)


@pytest.fixture
def connection(port: int) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    yield made
    made.close()


def test_it_runs_on_the_loop_that_was_asked_for(backend_name: str, connection: http.client.HTTPConnection) -> None:
    for _ in range(3):  # on one connection, kept alive
        connection.request("GET", "/")
        response = connection.getresponse()
        assert response.status == 200
        said = json.loads(response.read())
        if backend_name == "asyncio":
            assert said == {"hello": "world", "loop": "asyncio.unix_events", "backend": None}
        else:
            assert said == {"hello": "world", "loop": "loopcore.loop", "backend": backend_name}


def test_large_body_comes_back_whole(connection: http.client.HTTPConnection) -> None:
    body = bytes(range(256)) * 4_000  # aiohttp takes up to 1 MiB
    connection.request("POST", "/echo", body)
    assert connection.getresponse().read() == body


def test_streamed_response_has_every_line(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/stream?n=5000")
    response = connection.getresponse()
    assert response.getheader("transfer-encoding") == "chunked"
    assert [json.loads(line) for line in response.read().splitlines()] == [{"line": n} for n in range(5000)]


def test_wrong_requests_are_refused_and_the_server_lives_on(port: int, connection: http.client.HTTPConnection) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as raw:
        raw.sendall(b"\0 nonsense\r\n\r\n")
        assert b" 400 " in raw.recv(1000)
    for path, status in (("/nowhere", 404), ("/stream?n=x", 400), ("/", 200)):
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        assert response.status == status


def test_hundred_connections_at_once_from_a_client_on_the_same_loop(backend_name: str, port: int) -> None:
    ended = run("http/client_aiohttp.py", f"http://127.0.0.1:{port}", "--requests", "100", backend=backend_name)
    assert ended == (0, "103 of 103 answers were right\n", "")


def leave_in_the_middle(address: tuple[str, int]) -> None:
    """Be clients that go away, in a request line and in a response (aiohttp logs it if it is in a body)."""
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        connection.sendall(b"GET /stream?n=9999 HT")
    for _ in range(5):
        with socket.create_connection(address, timeout=PATIENCE) as connection:
            connection.sendall(b"GET /stream?n=9999 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", SERVERS)
def test_signal_shuts_down_beside_open_connections_and_after_lost_ones(
    backend_name: str, kind: str, number: signal.Signals
) -> None:
    upgrade = (
        b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    with server(kind, backend_name) as child:
        address = ("127.0.0.1", port_of(kind, child))
        leave_in_the_middle(address)
        with (
            socket.create_connection(address, timeout=PATIENCE) as silent,
            socket.create_connection(address, timeout=PATIENCE) as kept_alive,
            socket.create_connection(address, timeout=PATIENCE) as websocket,
        ):
            kept_alive.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_to(kept_alive, b"}").startswith(b"HTTP/1.1 200 OK\r\n")
            websocket.sendall(upgrade)
            assert read_to(websocket, b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
            child.process.send_signal(number)
            # A close frame; the client answers with one, as it should (RFC 6455, 5.5.1). uvicorn does not wait for it.
            assert websocket.recv(1000)[:1] == b"\x88"
            with suppress(ConnectionError):
                websocket.sendall(b"\x88\x82\0\0\0\0\x03\xe9")
            ended = child.end()
            assert silent.recv(10) == b""
            assert kept_alive.recv(10) == b""
    assert complaints(ended) == []
    # uvicorn ends by the signal it was sent, once it has shut down; for SIGINT its command then exits with 0.
    assert ended.code == (-number if (kind, number) == ("uvicorn", signal.SIGTERM) else 0)


def test_unknown_backend_is_an_error_that_names_those_there_are() -> None:
    ended = run("http/app_aiohttp.py", "--port", "0", backend="nonsense")
    assert ended.code != 0
    assert re.search(r"nonsense.*epoll|epoll.*nonsense", ended.err, re.DOTALL)
