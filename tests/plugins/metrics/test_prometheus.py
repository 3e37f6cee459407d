"""What Prometheus is given: names and units as it wants them, an endpoint for the loops of a process, and its end."""

import asyncio
import gc
import logging
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.metrics import Metrics, endpoint
from loopcore_plugins.metrics.catalogue import BOUNDS, CATALOGUE
from tests.plugins.metrics.prometheus_show import free_ports
from tests.plugins.metrics.reading import Reader, nothing

prometheus_client = pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

from loopcore_plugins.metrics.prometheus import CONTENT_TYPE, expose  # noqa: E402

pytestmark = pytest.mark.loopcore_only

KINDS = {"counter": "counter", "updown": "gauge", "gauge": "gauge", "histogram": "histogram"}


def families(text: bytes) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text.decode())}


def scrape(address: tuple[str, int]) -> bytes:
    host, port = address
    with urllib.request.urlopen(f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics", timeout=10) as answer:
        assert answer.headers["content-type"].startswith("text/plain")
        body: bytes = answer.read()
        return body


async def work() -> None:
    await asyncio.gather(*(asyncio.sleep(0.001) for _ in range(5)))
    await asyncio.to_thread(int)


def run(loop: Any) -> None:
    loop.run_until_complete(work())
    loop.run_until_complete(loop.shutdown_default_executor())


# The text


def test_every_metric_is_exposed_with_its_kind_and_help(loop: Any) -> None:
    Reader(loop)
    run(loop)
    exposed = families(expose())
    for metric in CATALOGUE:
        family = exposed[metric.prometheus_name.removesuffix("_total")]
        assert (family.type, family.documentation) == (KINDS[metric.kind], metric.help)
    assert CONTENT_TYPE.startswith("text/plain")


def test_values_are_those_of_the_snapshot_with_loop_and_backend(loop: Any, backend_name: str) -> None:
    reader = Reader(loop)
    run(loop)
    exposed = families(expose())
    (created,) = exposed["loopcore_tasks_created"].samples
    assert created.name == "loopcore_tasks_created_total"
    assert created.labels == {"loop": "main", "backend": backend_name}
    assert created.value == reader.metrics.snapshot().counters.tasks_created
    finished = exposed["loopcore_tasks_finished"].samples
    assert {sample.labels["outcome"]: sample.value for sample in finished}["finished"] == created.value


def test_buckets_are_cumulative_and_hold_what_was_recorded(loop: Any) -> None:
    reader = Reader(loop)
    run(loop)
    family = families(expose())["loopcore_timer_lateness_seconds"]
    buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
    (count,) = [sample.value for sample in family.samples if sample.name.endswith("_count")]
    lateness = reader.metrics.snapshot().measurements.lateness
    assert [float(sample.labels["le"]) for sample in buckets] == [*BOUNDS, float("inf")]
    bounds = [bound / 1e9 for bound in loopcore.Histogram.bounds()]
    for sample in buckets:
        recorded = sum(
            n for n, bound in zip(lateness.buckets, bounds, strict=True) if bound <= float(sample.labels["le"])
        )
        assert sample.value == recorded
    assert count == buckets[-1].value == lateness.count == 5


def test_names_keep_prometheus_rules() -> None:
    for metric in CATALOGUE:
        name = metric.prometheus_name
        assert name.startswith("loopcore_")
        assert name.endswith("_total") == (metric.kind == "counter")
        assert name.removesuffix("_total").endswith("_seconds") == (metric.unit == "s")
    assert len({metric.prometheus_name for metric in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_has_nothing_to_say(loop: Any) -> None:
    Reader(loop)
    run(loop)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=expose(), capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_loops_are_told_apart_and_closed_ones_disappear(loopcore_factory: Any) -> None:
    loops = [loopcore_factory() for _ in range(2)]
    for loop in loops:
        loop.probes.register(Metrics())

    def names() -> list[str]:
        return [sample.labels["loop"] for sample in families(expose())["loopcore_tasks_live"].samples]

    assert names() == ["main", "main-2"]
    loops[0].close()
    assert names() == ["main-2"]
    loops[1].close()
    assert names() == []


def test_the_default_registry_has_them_for_a_program_that_serves_it(loop: Any) -> None:
    for _ in range(2):  # as every loop of a process does
        metrics = Metrics(prometheus=True)
    loop.probes.register(metrics)
    names = families(prometheus_client.generate_latest())
    assert "loopcore_tasks_live" in names
    assert "python_info" in names


# The endpoint


async def test_an_endpoint_is_scraped_while_the_loop_stands_still(loop: Any) -> None:
    metrics = Metrics(port=0)
    loop.probes.register(metrics)
    assert metrics.address is not None
    text = scrape(metrics.address)  # in the loop's thread, which it blocks
    (live,) = families(text)["loopcore_tasks_live"].samples
    assert live.value == 1
    assert "python_info" in families(text)


def test_the_loops_of_a_process_share_an_endpoint_until_the_last_is_closed(loopcore_factory: Any) -> None:
    loops, plugins = [loopcore_factory() for _ in range(2)], [Metrics(port=0) for _ in range(2)]
    for loop, plugin in zip(loops, plugins, strict=True):
        loop.probes.register(plugin)
    address = plugins[0].address
    assert address is not None
    assert plugins[1].address == address
    loops[0].close()
    assert len(families(scrape(address))["loopcore_tasks_live"].samples) == 1
    loops[1].close()
    assert plugins[1].address is None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_the_next_loop_has_the_port_again(backend_name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    for _ in range(2):
        metrics = Metrics(port=port)

        async def main(metrics: Metrics = metrics) -> None:
            assert metrics.address == ("127.0.0.1", port)
            await asyncio.to_thread(scrape, metrics.address)

        loopcore.run(main(), backend=backend_name, plugins=[metrics])


def test_a_port_that_is_taken_is_reported_and_the_loop_is_measured(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        metrics = Metrics(port=port)
        with caplog.at_level(logging.ERROR, "loopcore.plugin"):
            loop.probes.register(metrics)
    assert f"not served at 127.0.0.1:{port}" in caplog.text
    assert "ports=" in caplog.text
    assert metrics.address is None
    loop.run_until_complete(nothing())
    assert metrics.snapshot().counters.tasks_finished == 1


def test_more_ports_are_advised_only_where_the_port_is_in_use(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    loop.probes.register(Metrics(port=0, host="192.0.2.1"))  # for documentation (RFC 5737): no machine has it
    assert "not served at 192.0.2.1:0" in caplog.text
    assert "ports=" not in caplog.text


def test_a_worker_takes_the_first_port_that_is_free(loop: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        metrics = Metrics(port=port, ports=200)
        loop.probes.register(metrics)
        assert metrics.address is not None
        assert port < metrics.address[1] < port + 200
        scrape(metrics.address)


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
def test_an_endpoint_stands_on_ipv6_as_well(loop: Any) -> None:
    metrics = Metrics(port=0, host="::1")
    loop.probes.register(metrics)
    if metrics.address is None:
        pytest.skip("no IPv6 address on the loopback")
    assert b"loopcore_tasks_live" in scrape(metrics.address)


def test_clients_that_say_nothing_keep_nobody_from_scraping(loop: Any) -> None:
    metrics = Metrics(port=0)
    loop.probes.register(metrics)
    assert metrics.address is not None
    with socket.create_connection(metrics.address), socket.create_connection(metrics.address):
        assert b"loopcore_tasks_live" in scrape(metrics.address)


def hung_up(sock: socket.socket) -> bool:
    """Say one more byte, and tell whether nobody listens any more."""
    try:
        sock.send(b"E")
        return sock.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_client_has_no_more_time_for_dripping(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 32: each byte began the time again, and the thread stayed."""
    monkeypatch.setattr(endpoint, "REQUEST_TIMEOUT", 0.3)
    metrics = Metrics(port=0)
    loop.probes.register(metrics)
    assert metrics.address is not None
    with socket.create_connection(metrics.address) as client:
        client.settimeout(0.01)
        client.send(b"G")
        assert any(hung_up(client) for _ in range(500))
    monkeypatch.undo()
    scrape_until_answered(metrics.address)


def test_a_client_that_goes_on_sending_is_hung_up_on_after_its_answer(
    loop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only when its time is up: no thread reads what it sends."""
    monkeypatch.setattr(endpoint, "REQUEST_TIMEOUT", 3600.0)
    metrics = Metrics(port=0)
    loop.probes.register(metrics)
    assert metrics.address is not None
    with socket.create_connection(metrics.address) as client:
        client.settimeout(0.01)
        client.send(b"POST / HTTP/1.0\r\nContent-Length: 1000000\r\n\r\n")
        assert any(refuses(client) for _ in range(1000))


def refuses(client: socket.socket) -> bool:
    """Tell whether the peer has closed the connection, not only its own direction."""
    time.sleep(0.01)
    try:
        client.send(b"x")
    except ConnectionError:
        return True
    return False


def scrape_until_answered(address: tuple[str, int]) -> None:
    """Scrape until the thread of a client before has ended."""
    for _ in range(1000):
        try:
            assert b"loopcore_tasks_live" in scrape(address)
            return
        except urllib.error.HTTPError as exc:  # 503
            exc.close()
        except OSError:  # refused before it had asked
            pass
    raise AssertionError("nobody is served any more")


def test_more_clients_than_can_be_served_are_told_so(loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Issue 32: each had a thread of its own, without a limit."""
    before = threading.active_count()
    metrics = Metrics(port=0)
    loop.probes.register(metrics)
    assert metrics.address is not None
    clients = []
    refusals = []
    for _ in range(endpoint.MOST_CLIENTS + 3):
        clients.append(socket.create_connection(metrics.address))
        clients[-1].settimeout(10)
    for client in clients[endpoint.MOST_CLIENTS :]:
        with client.makefile("rb") as file:
            refusals.append(file.read())
    assert threading.active_count() <= before + 1 + endpoint.MOST_CLIENTS
    for client in clients:
        client.close()
    assert all(refusal.startswith(b"HTTP/1.0 503 ") and b"Retry-After" in refusal for refusal in refusals)
    assert caplog.text.count("more are refused") == 1
    scrape_until_answered(metrics.address)


@pytest.fixture
def collected_by_hand() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def drop_a_loop_with(metrics: Metrics) -> tuple[str, int]:
    loop = loopcore.new_event_loop()
    loop.probes.register(metrics)
    assert metrics.address is not None
    return metrics.address


@pytest.mark.usefixtures("collected_by_hand")
@pytest.mark.filterwarnings("ignore:unclosed event loop")
def test_a_dropped_loop_may_be_collected_while_an_endpoint_is_made(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    address = drop_a_loop_with(Metrics(port=0))
    bind = endpoint._bind
    monkeypatch.setattr(endpoint, "_bind", lambda *where: (gc.collect(), bind(*where))[1])
    made = threading.Thread(target=loop.probes.register, args=(Metrics(port=0, host="localhost"),), daemon=True)
    made.start()
    made.join(30)
    assert not made.is_alive()
    with pytest.raises(OSError):
        scrape(address)


@pytest.mark.usefixtures("collected_by_hand")
@pytest.mark.filterwarnings("ignore:unclosed event loop")
def test_a_dropped_loop_may_be_collected_in_the_endpoints_own_thread() -> None:
    before = set(endpoint._endpoints.values())
    address = drop_a_loop_with(Metrics(port=0))
    (served,) = set(endpoint._endpoints.values()) - before
    accept = served._server.get_request
    served._server.get_request = lambda: (accept(), gc.collect())[0]  # type: ignore[method-assign]
    socket.create_connection(address).close()
    served._thread.join(30)
    assert not served._thread.is_alive()
    with pytest.raises(OSError):
        scrape(address)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_begins_anew(loop: Any) -> None:
    metrics = Metrics(port=0)
    loop.probes.register(metrics)
    address = metrics.address
    assert address is not None
    child = os.fork()
    if child == 0:
        try:
            mine = Metrics(port=0)
            loopcore.new_event_loop(loop.backend.name, plugins=[mine])
            assert mine.address is not None
            alone = families(scrape(mine.address))["loopcore_tasks_live"].samples
            os._exit(0 if [sample.labels["loop"] for sample in alone] == ["main"] and mine.address != address else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert b"loopcore_tasks_live" in scrape(address)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_keeps_no_client(loop: Any) -> None:
    """Issue 32: a client whose copy a child has would wait for its end."""
    before = set(endpoint._endpoints.values())
    metrics = Metrics(port=0)
    loop.probes.register(metrics)
    assert metrics.address is not None
    (served,) = set(endpoint._endpoints.values()) - before
    with socket.create_connection(metrics.address):
        scrape(metrics.address)  # the client before it has been accepted, too
        child = os.fork()
        if child == 0:
            try:
                copies = list(served._server._served.items())
                left = [request for request, client in copies if (request.fileno(), client.sock.fileno()) != (-1, -1)]
                os._exit(0 if copies and not left else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("name", [7, None, "a\nb", "a\udcff"])
def test_a_name_that_no_export_can_show_is_refused(name: Any) -> None:
    # From the environment, bytes that are no text come as surrogates: every scrape of the process would fail.
    with pytest.raises(UsageError, match="name"):
        Metrics(name=name)


@pytest.mark.parametrize(
    "options", [{"port": -1}, {"port": 65536}, {"port": 65535, "ports": 2}, {"port": 1, "ports": 0}]
)
def test_ports_that_cannot_be_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="is out of range: 0 to 65535"):
        Metrics(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [-1.0, float("nan"), float("inf")])
def test_a_window_that_cannot_be_is_refused(window: float) -> None:
    with pytest.raises(UsageError, match="window must be a number of seconds"):
        Metrics(window=window)


def test_a_port_that_is_being_closed_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, begins, may_stop = endpoint.Endpoint.stop, threading.Event(), threading.Event()

    def stop_late(self: endpoint.Endpoint) -> None:
        begins.set()
        may_stop.wait(30)
        stop(self)

    port = free_ports(1)
    first = endpoint.open_endpoint("127.0.0.1", range(port, port + 1), {})
    monkeypatch.setattr(endpoint.Endpoint, "stop", stop_late)
    with ThreadPoolExecutor(2) as pool:
        closing = pool.submit(endpoint.close_endpoint, first, {})
        assert begins.wait(30)
        opening = pool.submit(endpoint.open_endpoint, "127.0.0.1", range(port, port + 1), {})
        assert wait((opening,), 0.1).not_done
        may_stop.set()
        closing.result(30)
        second = opening.result(30)
    assert second.address == ("127.0.0.1", port)
    endpoint.close_endpoint(second, {})
