"""`loopcore serve` as a process: it serves on several loops, drains on SIGTERM, and explains what it cannot serve."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loopcore.errors import UsageError
from loopcore.serving import serve

pytest.importorskip("uvicorn")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends SIGTERM")

SOURCE = """
import asyncio, os, threading
print("imported\\n", end="", flush=True)

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        for _ in range(2):
            message = await receive()
            scope["state"]["of"] = threading.get_ident()
            print(message["type"] + "\\n", end="", flush=True)
            await send({"type": message["type"] + ".complete"})
        return
    events = scope["path"] == "/events"
    kind = b"text/event-stream" if events else b"text/plain"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    here = scope["state"]["of"] == threading.get_ident()
    body = f"{os.getpid()} {here}\\n\\n".encode()
    await send({"type": "http.response.body", "body": body, "more_body": events})
    if events:
        await asyncio.Event().wait()

async def slow(scope, receive, send):
    async def starting():
        message = await receive()
        if message["type"] == "lifespan.startup":
            print("starting\\n", end="", flush=True)
            await asyncio.sleep(0.5)
        return message

    await app(scope, starting, send)

async def failing(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "served.py").write_text(SOURCE)
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "loopcore", "serve", *arguments, "--set", "log_level=critical"]


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run the command on any port; yield the process and the port."""
    process = subprocess.Popen(
        command(*arguments, "--port", "0"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"serving http://127\.0\.0\.1:(\d+) with ", line)
        assert found, line + process.stderr.read()
        yield process, int(found[1])
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", ["--threads", "--processes"])
def test_a_stream_is_complete_and_the_exit_code_zero_at_the_deadline(folder: Path, kind: str) -> None:
    with serving(folder, "served:app", kind, "--loops", "2", "--drain", "0.1") as (process, port):
        plain, stream = (http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(2))
        plain.request("GET", "/")
        pid, is_here = plain.getresponse().read().split()
        assert is_here == b"True"  # its lifespan ran on the same loop
        assert (int(pid) == process.pid) == (kind == "--threads")
        stream.request("GET", "/events")
        response = stream.getresponse()
        assert response.readline()
        process.send_signal(signal.SIGTERM)
        response.read()  # raises IncompleteRead without a last chunk
        out, err = process.communicate(timeout=60)
        plain.close()
        stream.close()
    assert process.returncode == 0, err
    assert "1 event stream ended by the deadline" in err
    assert out.splitlines().count("lifespan.startup") == out.splitlines().count("lifespan.shutdown") == 2
    assert out.splitlines().count("imported") == 2  # an application object for each loop


@pytest.mark.parametrize("kind", ["--threads", "--processes"])
def test_a_startup_that_sigterm_interrupts_ends_and_the_shutdown_follows(folder: Path, kind: str) -> None:
    process = subprocess.Popen(
        command("served:slow", kind, "--loops", "2", "--port", "0"),
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    seen = []
    while seen.count("starting\n") < 2:
        seen.append(process.stdout.readline())
        assert seen[-1]
    process.send_signal(signal.SIGTERM)
    with process.stdout as rest:
        seen += rest
    assert process.wait(timeout=60) == 0
    assert seen.count("lifespan.startup\n") == seen.count("lifespan.shutdown\n") == 2


def test_a_factory_is_called_once_for_each_loop(folder: Path) -> None:
    with (folder / "served.py").open("a") as file:
        file.write("def create():\n    print('created\\n', end='', flush=True)\n    return app\n")
    with serving(folder, "served:create", "--factory", "--threads", "--loops", "2") as (process, _):
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.splitlines().count("created") == 2


@pytest.mark.parametrize("options", [{"app": "no_such_module:app"}, {"kind": "processes"}, {"loops": 0}])
def test_the_copy_of_a_descriptor_is_closed_if_an_argument_is_wrong(options: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        before = os.listdir("/dev/fd")
        with pytest.raises(UsageError):
            serve(**{"app": "served:app", "kind": "threads", "loops": 2, "fd": listener.fileno(), **options})
        assert os.listdir("/dev/fd") == before


def test_a_descriptor_that_is_no_socket_is_not_copied() -> None:
    reading, writing = os.pipe()
    before = os.listdir("/dev/fd")
    with pytest.raises(UsageError, match="is not a socket"):
        serve("served:app", fd=reading)
    assert os.listdir("/dev/fd") == before
    os.close(reading)
    os.close(writing)


def test_a_shared_application_has_one_lifespan(folder: Path) -> None:
    with serving(folder, "served:app", "--threads", "--loops", "2", "--shared-app") as (process, _):
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.splitlines() == ["imported", "lifespan.startup", "lifespan.shutdown"]


def test_an_inherited_listening_socket_is_served(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = subprocess.Popen(
            command("served:app", "--threads", "--loops", "2", "--fd", str(listener.fileno())),
            cwd=folder,
            pass_fds=[listener.fileno()],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        client.request("GET", "/")  # waits in the queue until the server accepts
        assert client.getresponse().status == 200
        client.close()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err


def test_a_unix_socket_is_served_and_removed(folder: Path) -> None:
    process = subprocess.Popen(
        command("served:app", "--loops", "1", "--uds", "s"),
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    assert "serving the Unix socket s with 1 loop" in process.stderr.readline()
    assert (folder / "s").stat().st_mode & 0o777 == 0o666  # for the proxy, which is another user
    with socket.socket(socket.AF_UNIX) as client:
        before = os.getcwd()
        os.chdir(folder)  # such a path may have 107 bytes
        try:
            client.connect("s")
        finally:
            os.chdir(before)
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert not (folder / "s").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["served:nothing"], 2, "module 'served' has no 'nothing'"),
        (["severd:app"], 2, "cannot find module 'severd' for 'severd:app' (did you mean 'served'?)"),
        (["served:app", "--loops", "0"], 2, "loops=0 is too few"),
        (["served:app", "--server", "granian"], 2, "server 'granian' is not known"),
        (["served:app", "--port", "70000"], 2, "port 70000 is out of range"),
        (["served:app", "--drain", "-1"], 2, "drain=-1.0 is not a number of seconds"),
        (["served:app", "--drain", "nan"], 2, "drain=nan is not a number of seconds"),
        (["served:app", "--fd", "77"], 2, "descriptor 77 is not a socket"),
        (["served:app", "--fd", "0", "--uds", "s"], 2, "accepts from one of them"),
        (["served:app", "--processes", "--shared-app"], 2, "use --shared-app with --threads"),
        (["served:app", "--threads", "--loops", "1", "--uds", "no/s"], 2, "cannot accept at the Unix socket no/s"),
        (["served:app", "--set", "workers=2"], 2, "option 'workers' has its own option --loops"),
        (["served:app", "--set", "http=h9"], 2, "; check http, log_level"),
        (["served:failing", "--threads"], 3, ""),
    ],
)
def test_what_cannot_be_served_is_one_line(folder: Path, arguments: list[str], code: int, message: str) -> None:
    ended = subprocess.run(
        command(*arguments),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == code, ended.stderr
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr


def test_without_uvicorn_the_command_says_how_to_install_it(folder: Path) -> None:
    program = "import sys; sys.modules['uvicorn'] = None; from loopcore.cli import main; sys.exit(main())"
    ended = subprocess.run(
        [sys.executable, "-c", program, "serve", "served:app"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("loopcore: error: uvicorn is not installed")
    assert "python -m pip install uvicorn" in ended.stderr
