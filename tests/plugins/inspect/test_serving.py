"""The page of loopcore top --page: what it shows, and which requests are refused."""

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from loopcore_plugins.inspect.page.serving import PageServer
from loopcore_plugins.metrics import endpoint
from tests.plugins import browser
from tests.plugins.inspect.processes import SERVER, client_of, loopcore, running, server_file, until


@pytest.fixture
def program(folder: Path, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    file = server_file(tmp_path).relative_to(tmp_path)
    with running(folder, file, "blocking", "recorder", cwd=tmp_path) as process:
        yield process


@pytest.fixture
def url(program: "subprocess.Popen[str]") -> Iterator[str]:
    """The address of the page, as the command prints it."""
    command = [sys.executable, "-m", "loopcore", "top", str(program.pid), "--page", "--interval", "0.2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None
        yield top.stdout.readline().strip()
        top.send_signal(signal.SIGINT)
        assert top.wait(30) == 0


def ask(url: str, method: str = "GET", **headers: str) -> tuple[int, Any, str]:
    """Return status, headers and body of the answer to a request."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=30)
    try:
        connection.request(method, f"{parts.path}?{parts.query}", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def test_the_page_shows_the_figures_live(url: str, program: "subprocess.Popen[str]") -> None:
    status, headers, page = ask(url)
    assert (status, headers["Referrer-Policy"], headers["Cache-Control"]) == (200, "no-referrer", "no-store")
    assert 'data-interval="0.2"' in page
    figures_at = url.replace("/?", "/figures?")

    def stalled() -> Any:
        status, _, body = ask(figures_at)
        figures = json.loads(body)
        if status != 200:
            return None
        is_blocked = any(event["cause"] == "blocked" for event in figures["events"])
        return is_blocked and any(site["place"].endswith("in query") for site in figures["sites"]) and figures

    figures = until(stalled, "there are figures of a stall")
    assert figures["title"] == f"app/server.py blocking recorder ({program.pid}.1)"
    site = next(site for site in figures["sites"] if site["place"].endswith("in query"))
    status, _, body = ask(f"{url.replace('/?', '/task?')}&id={site['example']['id']}")
    assert (status, json.loads(body)["awaiters"]) == (200, ["report", "Task-1"])
    assert ["woken", "by client"] in [entry[1:] for entry in json.loads(body)["history"]]
    assert ask(f"{url.replace('/?', '/task?')}&id=1")[0] == 404
    assert ask(f"{url.replace('/?', '/task?')}&id=x")[0] == 404


def test_it_is_read_only_and_for_those_who_have_the_address(url: str) -> None:
    without = url.partition("?")[0]
    for refused in (without, f"{without}?token=", f"{without}?token=no", f"{without}figures", f"{url}x"):
        status, _, body = ask(refused)
        assert (status, "open the address that `loopcore top --page` has printed" in body) == (403, True)
    for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS", "CANCEL"):
        status, headers, body = ask(url, method)
        assert (status, headers["Allow"]) == (405, "GET")
    assert ask(url.replace("/?", "/cancel?"))[0] == 404


def test_other_names_than_this_machines_are_refused(url: str) -> None:
    """A page of another host, whose name leads here, sends its own (DNS rebinding)."""
    for host in ("localhost", "localhost:80", "127.0.0.1:1", "LOCALHOST", "[::1]", "[::1]:80"):
        assert ask(url, Host=host)[0] == 200
    others = ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example:1", "", "0.0.0.0")
    for host in others:
        status, _, body = ask(url, Host=host)
        assert (status, "not under another name" in body) == (403, True)


def test_it_ends_with_the_process(folder: Path) -> None:
    with running(folder, SERVER) as process:
        command = [sys.executable, "-m", "loopcore", "top", str(process.pid), "--page"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as top:
            assert top.stdout is not None
            top.stdout.readline()
            process.kill()
            assert f"{process.pid}.1 has ended" in top.stdout.read()
            assert top.wait(30) == 0


def test_a_port_that_is_in_use_is_an_error(folder: Path, url: str, program: "subprocess.Popen[str]") -> None:
    done = loopcore("top", str(program.pid), "--page", "--port", str(urlsplit(url).port))
    assert (done.returncode, "leave --port out" in done.stderr) == (2, True)


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a server without figures."""
    sampler: Any = None
    with PageServer(sampler, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def answer_to(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client, client.makefile("rb") as file:
        client.sendall(request)
        return file.read()


def test_a_bad_address_is_refused(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert answer_to(port, b"GET http://[ HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 400 ")
    assert capfd.readouterr() == ("", "")


def test_more_clients_than_can_be_served_are_told_so(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        for _ in range(endpoint.MOST_CLIENTS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert answer_to(port, b"").startswith(b"HTTP/1.0 503 ")
    assert capfd.readouterr() == ("", "")


def test_a_client_has_no_more_time_for_dripping(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "REQUEST_TIMEOUT", 0.3)
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(0.01)
        client.send(b"G")
        while not hung_up(client):
            pass


def hung_up(client: socket.socket) -> bool:
    """Send another byte; tell whether the peer has closed the connection."""
    try:
        client.send(b"E")
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.browser
def test_a_browser_draws_it_under_its_policy(url: str) -> None:
    document = browser.read_document(url, milliseconds=1000)
    body = document.partition("<main")[2].partition("<script")[0]
    assert '<span class="state" role="status">live</span>' in document
    assert body.count("<polyline") >= 6
    assert "NaN" not in body
    assert re.search(r"<td [^>]*><details><summary>app/server.py:\d+, in query</summary>", body)
    assert re.search(r"stroke: ?var\(--c0\)", body)


@pytest.mark.browser
def test_a_picture_for_the_manual(url: str, program: "subprocess.Popen[str]", tmp_path: Path) -> None:
    with client_of(program) as client:
        until(lambda: client.ask("sample")["stalls"]["count"] > 4, "there were some stalls")
    picture = browser.take_picture(url, "inspect-page.png", tmp_path, size=(1200, 2250))
    assert picture.stat().st_size > 20_000
