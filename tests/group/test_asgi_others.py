"""hypercorn and gunicorn: event streams and WebSockets at the end of servers that are not loopcore's own command."""

import http.client
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from loopcore.errors import UsageError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")

SOURCE = """
import asyncio, os, threading
from loopcore.serving import draining

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            message = await receive()
            scope["state"]["of"] = threading.get_ident()
            print(message["type"] + "\\n", end="", flush=True)
            await send({"type": message["type"] + ".complete"})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
    else:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        here = scope["state"]["of"] == threading.get_ident()
        await send({"type": "http.response.body", "body": f"{here}\\n".encode(), "more_body": True})
        await draining()
        await send({"type": "http.response.body", "body": b"draining\\n", "more_body": True})
        await asyncio.Event().wait()
"""
SERVE = ("loopcore", "serve", "served:app", "--server", "hypercorn", "--port", "0", "--drain", "0.1", "--loops", "2")
GUNICORN = (
    *("gunicorn", "served:app", "--worker-class", "loopcore.gunicorn.LoopcoreWorker", "--bind", "127.0.0.1:0"),
    *("--graceful-timeout", "2"),
)
SERVERS = {
    "hypercorn, threads": (("hypercorn",), (*SERVE, "--threads"), 2),
    "hypercorn, processes": (("hypercorn",), (*SERVE, "--processes"), 2),
    "gunicorn": (("gunicorn", "uvicorn_worker"), GUNICORN, 1),
    "gunicorn, threads": (("gunicorn", "uvicorn_worker"), (*GUNICORN, "--threads", "2"), 2),
}


@pytest.mark.parametrize("name", SERVERS)
def test_streams_are_complete_and_websockets_are_closed_with_1012(name: str, tmp_path: Path) -> None:
    packages, arguments, lifespans = SERVERS[name]
    for package in (*packages, "websockets"):
        pytest.importorskip(package)
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    (tmp_path / "served.py").write_text(SOURCE)
    errors = tmp_path / "errors"
    with errors.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=file, text=True
        )
    try:
        assert process.stdout is not None
        started = [process.stdout.readline() for _ in range(lifespans)]
        assert started == ["lifespan.startup\n"] * lifespans, errors.read_text()
        while (found := re.search(r"http://127\.0\.0\.1:(\d+)", errors.read_text())) is None:
            assert process.poll() is None, errors.read_text()
        client = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=30)
        client.request("GET", "/")
        response = client.getresponse()
        assert response.readline() == b"True\n"
        with connect(f"ws://127.0.0.1:{found[1]}/") as websocket:
            process.send_signal(signal.SIGTERM)
            assert response.readline() == b"draining\n"
            for pid in re.findall(r"Booting worker with pid: (\d+)", errors.read_text()):
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGTERM)  # gunicorn repeats it to surplus workers
            with pytest.raises(ConnectionClosed) as closed:
                websocket.recv(timeout=30)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        response.read()  # raises IncompleteRead without a last chunk
        client.close()
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0, errors.read_text()
        assert out.splitlines().count("lifespan.shutdown") == lifespans, out
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("keep_alive_timeout", "abc", "option 'keep_alive_timeout' must be a number, not 'abc'"),
        ("root_path", 5, "; check root_path"),
    ],
)
def test_values_that_hypercorn_cannot_use_are_refused(name: str, value: object, message: str) -> None:
    pytest.importorskip("hypercorn")
    from loopcore.serving import on_hypercorn

    with pytest.raises(UsageError, match=message):
        on_hypercorn.check_options({name: value})
    on_hypercorn.check_options({"keep_alive_timeout": 2, "read_timeout": 1.5, "accesslog": None})
