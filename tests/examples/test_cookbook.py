"""Each recipe of the cookbook runs under its real server or with its real library, and ends in order.

A recipe whose packages are missing is skipped; `pip install -e ".[cookbook]"` installs all of them.
"""

import gzip
import http.client
import http.server
import json
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from programs import EXAMPLES, PATIENCE, Child, Ended

COOKBOOK = EXAMPLES / "cookbook"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the servers are ended by SIGTERM")


def recipe(*arguments: str, needs: tuple[str, ...], **more: str) -> Child:
    """Start `python ARGUMENTS...` with the recipes on its path, as from their folder."""
    for package in needs:
        pytest.importorskip(package, reason='pip install -e ".[cookbook]"')
    return Child([sys.executable, *arguments], "auto", PYTHONPATH=str(COOKBOOK), **more)


def uvicorn(*arguments: str, needs: str, **more: str) -> Child:
    options = ["-m", "uvicorn", "--port", "0", "--loop", "loopcore:new_event_loop"]
    return recipe(*options, *arguments, needs=("uvicorn", needs), **more)


def get(port: int, path: str = "/") -> tuple[int, str]:
    """Status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def get_json(port: int, path: str = "/") -> dict[str, Any]:
    status, body = get(port, path)
    assert status == 200, body
    found: dict[str, Any] = json.loads(body)
    return found


def stop(child: Child) -> Ended:
    """Send SIGTERM; nothing may have gone wrong up to the end."""
    ended = child.stop(signal.SIGTERM)
    assert "Traceback" not in ended.out + ended.err, ended.out + ended.err
    return ended


# ------------------------------------------------------------------ frameworks


def test_fastapi_runs_its_tasks_on_loopcore() -> None:
    with uvicorn("fastapi_app:app", needs="fastapi") as child:
        port = child.port_in_log()
        assert get_json(port) == {"loop": "loopcore.loop"}
        report = get_json(port, "/report")
        assert report["visits"] == 1
        assert report["thread"] != "MainThread"
        assert stop(child).code == -signal.SIGTERM


def test_django_answers_on_loopcore_and_in_threads() -> None:
    with uvicorn("--lifespan", "off", "django_app:application", needs="django") as child:
        port = child.port_in_log()
        assert get_json(port) == {"loop": "loopcore.loop"}
        assert get_json(port, "/report") == {"in_loop_thread": False}
        assert stop(child).code == -signal.SIGTERM


def test_litestar_answers_on_loopcore() -> None:
    with uvicorn("litestar_app:app", needs="litestar") as child:
        assert get_json(child.port_in_log()) == {"loop": "loopcore.loop", "limit": 10}
        assert stop(child).code == -signal.SIGTERM


# ------------------------------------------------------------------ servers


def test_gunicorn_worker_runs_on_loopcore_and_ends_in_order() -> None:
    worker = "loopcore.gunicorn.LoopcoreWorker"
    options = ["--bind", "127.0.0.1:0", "--worker-class", worker, "--workers", "2", "fastapi_app:app"]
    with recipe("-m", "gunicorn", *options, needs=("gunicorn", "uvicorn_worker", "fastapi")) as child:
        port = child.port_in_log()
        assert [get_json(port) for _ in range(4)] == [{"loop": "loopcore.loop"}] * 4
        assert stop(child).code == 0


@pytest.mark.parametrize("variable", ["LOOPCORE_BACKEND", "LOOPCORE_PLUGINS"])
def test_gunicorn_ends_if_a_setting_is_wrong(variable: str) -> None:
    options = ["--bind", "127.0.0.1:0", "--worker-class", "loopcore.gunicorn.LoopcoreWorker", "fastapi_app:app"]
    needs = ("gunicorn", "uvicorn_worker", "fastapi")
    with recipe("-m", "gunicorn", *options, needs=needs, **{variable: "nonsense"}) as child:
        ended = child.end()
    assert ended.code == 3
    assert "no event loop could be made: " in ended.err
    assert "nonsense" in ended.err


def test_hypercorn_serves_in_a_program_on_loopcore() -> None:
    with recipe(str(COOKBOOK / "hypercorn_server.py"), "127.0.0.1:0", needs=("hypercorn", "fastapi")) as child:
        assert get_json(child.port_in_log()) == {"loop": "loopcore.loop"}
        assert stop(child).code == 0


def test_granian_workers_run_on_loopcore() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with recipe(str(COOKBOOK / "granian_server.py"), str(port), needs=("granian", "fastapi")) as child:
        for _ in range(2):  # both: Granian misses a signal that arrives before
            child.wait_for("Started worker-")
        assert [get_json(port) for _ in range(4)] == [{"loop": "loopcore.loop"}] * 4
        assert stop(child).code == 0


# ------------------------------------------------------------------ shutdown and timeouts


def test_event_stream_and_websocket_end_at_shutdown() -> None:
    client = pytest.importorskip("websockets.sync.client")
    closed = pytest.importorskip("websockets.exceptions").ConnectionClosed
    with recipe(str(COOKBOOK / "sse_websocket.py"), "0", needs=("uvicorn", "starlette")) as child:
        port = child.port_in_log()
        with (
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as stream,
            client.connect(f"ws://127.0.0.1:{port}/echo", open_timeout=PATIENCE) as websocket,
        ):
            stream.sendall(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
            lines = stream.makefile("rb")
            assert next(line for line in lines if line.startswith(b"data: "))
            websocket.send("hello")
            assert websocket.recv(timeout=PATIENCE) == "hello"
            child.process.send_signal(signal.SIGTERM)
            with pytest.raises(closed) as caught:
                websocket.recv(timeout=PATIENCE)
            assert caught.value.rcvd.code == 1012
            assert b"event: bye\n" in list(lines)
            lines.close()
        ended = child.end()
        assert ended.code == -signal.SIGTERM
        assert "closed\n" in ended.out
        assert "Traceback" not in ended.err, ended.err


def test_timeout_of_a_request_answers_504() -> None:
    with uvicorn("timeouts:app", needs="starlette", REQUEST_TIMEOUT="0.1") as child:
        assert get(child.port_in_log(), "/slow") == (504, "this took too long")
        assert stop(child).code == -signal.SIGTERM


def test_timeouts_of_a_call_and_a_thread_leave_the_request_alive() -> None:
    with uvicorn("timeouts:app", needs="starlette", REQUEST_TIMEOUT="60") as child:
        port = child.port_in_log()
        assert get_json(port, "/call") == {"price": None}
        assert get_json(port, "/thread") == {"thread": "was told to end"}
        assert stop(child).code == -signal.SIGTERM


# ------------------------------------------------------------------ reports


class SentryServer(http.server.ThreadingHTTPServer):
    """Takes envelopes, as Sentry does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Envelopes)
        self.events: list[dict[str, Any]] = []


class Envelopes(http.server.BaseHTTPRequestHandler):
    server: SentryServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        for line in body.splitlines():
            item = json.loads(line or b"{}")
            if "level" in item:
                self.server.events.append(item)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def sentry() -> Iterator[SentryServer]:
    with SentryServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_sentry_gets_errors_of_tasks_and_stalls(sentry: SentryServer) -> None:
    dsn = f"http://key@127.0.0.1:{sentry.server_port}/1"
    with recipe(str(COOKBOOK / "sentry_app.py"), needs=("sentry_sdk",), SENTRY_DSN=dsn) as child:
        assert child.end()[:2] == (0, "True a task failed\n")
    (error,) = [event for event in sentry.events if "exception" in event]
    assert error["exception"]["values"][0]["type"] == "ValueError"
    line = next(
        n for n, text in enumerate((COOKBOOK / "sentry_app.py").read_text().splitlines(), 1) if "sleep(" in text
    )
    stalls = {event["message"]: event["tags"] for event in sentry.events if "message" in event}
    # The cause is `blocked`, or another one if the machine was too busy to let the watchdog see that.
    assert set(stalls[f"event loop stalled at {COOKBOOK / 'sentry_app.py'}:{line}"]) == {"stall.cause"}


def test_structlog_formats_records_of_tasks_and_of_loopcore() -> None:
    with recipe(str(COOKBOOK / "structlog_app.py"), needs=("structlog",)) as child:
        ended = child.end()
    assert ended.code == 0, ended.err
    records = [json.loads(line) for line in ended.err.splitlines()]
    of_tasks = [(record["event"], record["request"]) for record in records if record["logger"] == "app"]
    assert of_tasks == [("begun", 1), ("begun", 2), ("done", 1), ("done", 2)]
    stalls = [record for record in records if record["logger"] == "loopcore.plugin.watchdog"]
    assert any("in handle" in record["event"] for record in stalls)


def test_opentelemetry_gets_spans_of_tasks_and_metrics_with_histograms() -> None:
    with recipe(str(COOKBOOK / "opentelemetry_app.py"), needs=("opentelemetry.sdk",)) as child:
        ended = child.end()
    assert (ended.code, ended.err) == (0, "")
    spans, metrics = {}, {}
    for item in documents(ended.out):
        if "context" in item:
            spans[item["name"], item["context"]["span_id"]] = item
        for scope in (scope for resource in item.get("resource_metrics", ()) for scope in resource["scope_metrics"]):
            metrics.update({metric["name"]: metric["data"]["data_points"] for metric in scope["metrics"]})
    names = [name for name, _ in spans]
    assert names.count("task price") == names.count("ask for the price") == 2
    assert "slow callback time.sleep" in names
    children = [span for (name, _), span in spans.items() if name == "ask for the price"]
    assert all(("task price", span["parent_id"].removeprefix("0x")) in by_id(spans) for span in children)
    assert metrics["loopcore.eventloop.ticks"][0]["value"] > 0
    assert metrics["loopcore.eventloop.tick.duration"][0]["count"] > 0


def by_id(spans: dict[tuple[str, str], Any]) -> set[tuple[str, str]]:
    return {(name, span_id.removeprefix("0x")) for name, span_id in spans}


def documents(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that follow one another in `text`."""
    decoder, position = json.JSONDecoder(), 0
    while (position := text.find("{", position)) >= 0:
        item, position = decoder.raw_decode(text, position)
        yield item


# ------------------------------------------------------------------ Kubernetes


def container() -> tuple[dict[str, Any], dict[str, Any]]:
    """The pod of kubernetes.yaml, and its container."""
    yaml = pytest.importorskip("yaml", reason="pip install pyyaml")
    pod = yaml.safe_load((COOKBOOK / "kubernetes.yaml").read_text(encoding="utf-8"))["spec"]["template"]["spec"]
    return pod, pod["containers"][0]


def test_kubernetes_command_answers_its_probes() -> None:
    _, shop = container()
    command = [{"8000": "0", "0.0.0.0": "127.0.0.1"}.get(word, word) for word in shop["command"] + shop["args"]]
    assert command[0] == "uvicorn"
    settings = {each["name"]: each["value"] for each in shop["env"]}
    with socket.create_server(("127.0.0.1", 0)) as free:
        ports = {"metrics": free.getsockname()[1]}
    plugins = settings["LOOPCORE_PLUGINS"]
    settings["LOOPCORE_PLUGINS"] = plugins.replace("9100", str(ports["metrics"])).replace("0.0.0.0", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as database:
        settings["DATABASE"] = f"127.0.0.1:{database.getsockname()[1]}"
        child = recipe("-m", *command, needs=("uvicorn", "starlette", "prometheus_client"), **settings)
        with child:
            ports["http"] = child.port_in_log()
            probes = [shop[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")]
            assert [get(ports[probe["port"]], probe["path"])[0] for probe in probes] == [200, 200, 200]
            database.close()
            assert [get(ports[probe["port"]], probe["path"])[0] for probe in probes] == [200, 200, 503]
            assert get(ports["http"]) == (200, "loopcore.loop")
            assert stop(child).code == -signal.SIGTERM


def test_kubernetes_waits_longer_than_the_server_needs_to_end() -> None:
    pod, shop = container()
    before_the_signal = int(shop["lifecycle"]["preStop"]["exec"]["command"][1])
    after_it = int(shop["args"][shop["args"].index("--timeout-graceful-shutdown") + 1])
    assert pod["terminationGracePeriodSeconds"] > before_the_signal + after_it


def test_each_recipe_is_in_the_manual() -> None:
    pages = "".join(
        page.read_text(encoding="utf-8") for page in (COOKBOOK.parents[1] / "docs/howto").glob("cookbook*.md")
    )
    assert [
        path.name
        for path in COOKBOOK.iterdir()
        if path.suffix in (".py", ".yaml") and f"cookbook/{path.name}" not in pages
    ] == []
