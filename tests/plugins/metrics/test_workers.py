"""The page of all workers: processes that take ports of one range, and another program among them."""

import http.server
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, repeat

import pytest

pytest.importorskip("prometheus_client")

from loopcore_plugins.metrics import workers
from tests.plugins.metrics.prometheus_show import free_ports

WORKER = """
import asyncio, sys
import loopcore
from loopcore_plugins.metrics import Metrics

async def main():
    print(metrics.address[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

metrics = Metrics(port=int(sys.argv[1]), ports=3)
loopcore.run(main(), plugins=[metrics])
"""


@contextmanager
def worker(port: int) -> Iterator[int]:
    """Run a worker; yield the port that it has taken."""
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())
        process.communicate()  # the end of its input ends it


def page(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics/all", timeout=30) as answer:
        return [line for line in answer.read().decode().splitlines() if not line.startswith("#")]


def test_each_worker_has_the_metrics_of_all() -> None:
    base = free_ports(3)
    with worker(base) as first, worker(base) as second:
        assert (first, second) == (base, base + 1)
        for asked in (first, second):
            lines = page(asked)
            ticks = [line for line in lines if line.startswith("loopcore_eventloop_ticks_total{")]
            assert [f'worker="{port}"' in line for port, line in zip((first, second), ticks, strict=True)] == [True] * 2
            buckets = [line for line in lines if line.startswith("loopcore_eventloop_tick_duration_seconds_bucket{")]
            assert len(buckets) == len(set(buckets)) > 2


def test_a_worker_that_has_ended_and_another_program_are_left_out() -> None:
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"node_cpu_seconds_total 3\n")

        def log_message(self, *arguments: object) -> None: ...

    base = free_ports(3)
    with http.server.HTTPServer(("127.0.0.1", base), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            with worker(base) as first:
                assert first == base + 1
                lines = page(first)
        finally:
            other.shutdown()
            thread.join()
    assert {line.partition('worker="')[2].partition('"')[0] for line in lines if "worker=" in line} == {str(first)}
    assert not [line for line in lines if line.startswith("node_cpu")]


@contextmanager
def pages(*texts: str) -> Iterator[range]:
    """Serve texts as the metrics of workers, none before all are asked for; yield the ports."""
    asked = threading.Barrier(len(texts))

    class Worker(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.wait(30)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(texts[self.server.server_address[1] - base].encode())

        def log_message(self, *arguments: object) -> None: ...

    base = free_ports(3)
    ports = range(base, base + len(texts))
    with ExitStack() as stack:
        for port in ports:
            server = stack.enter_context(http.server.HTTPServer(("127.0.0.1", port), Worker))
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
        stack.callback(asked.abort)
        yield ports


@contextmanager
def program(parts: Iterable[bytes], pause: float) -> Iterator[int]:
    """Send the parts to one client of a port, which is yielded, with a pause after each, until it has gone."""

    def serve() -> None:
        sock, _ = server.accept()
        with sock, suppress(OSError):
            sock.recv(1 << 16)
            for part in parts:
                sock.sendall(part)
                if gone.wait(pause):
                    return

    gone = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            gone.set()
            thread.join()


def merged(ports: range) -> list[str]:
    application = workers.page_of_workers("127.0.0.1", ports)
    text = b"".join(application({}, lambda *arguments: lambda data: None)).decode()
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_all_workers_are_asked_at_once() -> None:
    with pages(*["loopcore_eventloop_x 1\n"] * 3) as ports:
        assert merged(ports) == [f'loopcore_eventloop_x{{worker="{port}"}} 1.0' for port in ports]


def test_a_page_that_cannot_be_parsed_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pages("loopcore_eventloop_x 1\n", "loopcore_eventloop_x one\n") as ports:
        assert merged(ports) == [f'loopcore_eventloop_x{{worker="{ports[0]}"}} 1.0']
    assert f"the worker at port {ports[1]} cannot be parsed" in caplog.text


def test_an_applications_own_label_worker_is_kept() -> None:
    with pages('loopcore_eventloop_x{worker="mail"} 1\n') as ports:
        assert merged(ports) == [f'loopcore_eventloop_x{{exported_worker="mail",worker="{ports[0]}"}} 1.0']


BEGIN = b"HTTP/1.0 200 OK\r\n\r\nloopcore_eventloop_x 1\n"


def test_a_program_whose_answer_takes_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "TIMEOUT", 0.5)
    with program((bytes([byte]) for byte in BEGIN), pause=0.1) as port:
        assert workers.fetch("127.0.0.1", port) == ""


def test_a_program_whose_answer_has_an_endless_line_is_left_out() -> None:
    with program([BEGIN, b"#" * workers.LONGEST_LINE, b"\n"], pause=0) as port:
        assert workers.fetch("127.0.0.1", port)
    with program([BEGIN, b"#" * workers.LONGEST_LINE, b"#\n"], pause=0) as port:
        assert workers.fetch("127.0.0.1", port) == ""


def test_a_program_whose_answer_is_too_large_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "TIMEOUT", 60.0)
    with program(chain([BEGIN], repeat(b"#" * (1 << 20), 8)), pause=0) as port:
        assert workers.fetch("127.0.0.1", port) == ""
