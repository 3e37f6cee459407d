"""The probes of a platform: live and ready, over HTTP."""

import asyncio
import http.client
import json
import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins._tasktree import Place, TaskView
from loopcore_plugins.metrics import Metrics
from loopcore_plugins.watchdog import Stall, Watchdog, delays, health, set_ready
from loopcore_plugins.watchdog.clocks import Collections, Moment
from loopcore_plugins.watchdog.delays import HEARTBEAT, INTERVAL, MOST, WINDOW, DelaySampler

pytestmark = pytest.mark.loopcore_only

GENEROUS = 1000.0
"""A limit, in seconds, that no machine reaches."""
ATTEMPTS = 10_000
"""Requests after which a test gives up on another answer."""


def ask(watchdog: Watchdog | Metrics, path: str) -> tuple[int, Any]:
    """Return the status of an answer, and its JSON, or text."""
    assert watchdog.address is not None
    connection = http.client.HTTPConnection(*watchdog.address, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read().decode()
        is_json = answer.headers["Content-Type"] == "application/json"
        return answer.status, json.loads(body) if is_json else body
    finally:
        connection.close()


def ask_until(status: int, watchdog: Watchdog, path: str) -> Any:
    """Return the first answer of this status."""
    for _ in range(ATTEMPTS):
        answered, body = ask(watchdog, path)
        if answered == status:
            return body
    raise AssertionError(f"{path} never answered {status}")


@contextmanager
def a_loop(*plugins: Any) -> Iterator[Any]:
    loop = loopcore.new_event_loop(plugins=plugins)
    try:
        yield loop
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


@pytest.fixture(autouse=True)
def ready_again() -> Iterator[None]:
    yield
    set_ready(True)


def test_a_loop_that_runs_is_live_and_ready() -> None:
    watchdog = Watchdog(port=0, max_stall=GENEROUS, max_delay=GENEROUS)

    async def main() -> None:
        assert await asyncio.to_thread(ask, watchdog, "/livez") == (200, {"live": True})
        assert await asyncio.to_thread(ask, watchdog, "/readyz") == (200, {"ready": True})

    with a_loop(watchdog) as loop:
        loop.run_until_complete(main())


def test_a_process_without_a_running_loop_is_live_and_not_ready() -> None:
    watchdog = Watchdog(port=0)
    with a_loop(watchdog) as loop:
        for _ in range(2):
            assert ask(watchdog, "/livez") == (200, {"live": True})
            assert ask(watchdog, "/readyz") == (503, {"ready": False, "cause": "not_running"})
            loop.run_until_complete(asyncio.sleep(0))
    assert watchdog.address is None


def test_a_loop_that_is_blocked_is_not_live_and_the_answer_names_the_code() -> None:
    watchdog = Watchdog(port=0, threshold=0.05, max_stall=0.1, max_delay=GENEROUS)

    async def main() -> None:
        body = ask_until(503, watchdog, "/livez")  # in the loop's thread
        assert body["live"] is False
        assert body["seconds"] >= 0.1
        assert __file__ in body["at"]
        assert ask(watchdog, "/readyz")[1]["ready"] is False
        await asyncio.to_thread(ask_until, 200, watchdog, "/livez")

    with a_loop(watchdog) as loop:
        loop.run_until_complete(main())


def test_a_program_says_that_it_is_not_ready() -> None:
    watchdog = Watchdog(port=0, max_stall=GENEROUS, max_delay=GENEROUS)

    async def main() -> None:
        set_ready(False, "draining")
        expected = {"ready": False, "cause": "program", "reason": "draining"}
        assert await asyncio.to_thread(ask, watchdog, "/readyz") == (503, expected)
        assert await asyncio.to_thread(ask, watchdog, "/livez") == (200, {"live": True})
        set_ready(True)
        assert await asyncio.to_thread(ask, watchdog, "/readyz") == (200, {"ready": True})

    with a_loop(watchdog) as loop:
        loop.run_until_complete(main())


def test_every_loop_of_the_process_counts() -> None:
    """The loop of another thread is blocked; this one answers for it."""
    mine = Watchdog(port=0, max_stall=GENEROUS, max_delay=GENEROUS)
    other = Watchdog(port=0, threshold=0.05, max_stall=0.1)

    async def blocked() -> None:
        assert ask_until(503, mine, "/livez")["live"] is False

    def run_the_other() -> None:
        with a_loop(other) as second:
            assert other.address == mine.address
            second.run_until_complete(blocked())

    async def main() -> None:
        await asyncio.to_thread(run_the_other)
        assert await asyncio.to_thread(ask, mine, "/livez") == (200, {"live": True})

    with a_loop(mine) as loop:
        loop.run_until_complete(main())


def test_metrics_and_probes_share_a_port() -> None:
    pytest.importorskip("prometheus_client")
    metrics, watchdog = Metrics(port=0), Watchdog(port=0)
    with a_loop(metrics, watchdog) as loop:
        assert metrics.address == watchdog.address
        assert "loopcore_tasks_live" in ask(metrics, "/metrics")[1]
        assert ask(metrics, "/livez")[0] == 200
        loop.probes.unregister(watchdog)
        assert ask(metrics, "/livez") == (404, "not found; the paths of this port are / /metrics\n")
        assert "loopcore_tasks_live" in ask(metrics, "/")[1]


def test_a_port_that_is_taken_is_logged_and_the_loop_runs(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, caplog.at_level(logging.ERROR, "loopcore.plugin"):
        port = taken.getsockname()[1]
        with a_loop(Watchdog(port=port)) as loop:
            loop.run_until_complete(asyncio.sleep(0))
    assert f"probes are not served at 127.0.0.1:{port}" in caplog.text


def test_the_options_are_read_from_text() -> None:
    with loopcore_loop("watchdog:port=0,host=127.0.0.1,max_stall=2.5,max_delay=0.1,context=app.log:request_id") as loop:
        ((_, watchdog),) = loop.probes.plugins()
        assert ask(watchdog, "/livez") == (200, {"live": True})


@contextmanager
def loopcore_loop(plugins: str) -> Iterator[Any]:
    loop = loopcore.new_event_loop(plugins=plugins)
    try:
        yield loop
    finally:
        loop.close()


@pytest.mark.parametrize(
    "options",
    [{"port": -1}, {"port": 65535, "ports": 2}]
    + [
        {**probes, limit: value}
        for probes in ({"port": 0}, {})
        for limit in ("max_stall", "max_delay")
        for value in (0.0, -1.0, float("nan"), float("inf"))
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"watchdog: .*{list(options)[-1]}"):
        Watchdog(**options)


# Delays, without time

BETWEEN = int(HEARTBEAT / INTERVAL) - 2
"""Samples after which no heartbeat is due."""


class FakeLoop:
    """A loop that runs what is posted when the test says so."""

    def __init__(self) -> None:
        self.waiting = False
        self.posted: list[Any] = []

    def is_waiting(self) -> bool:
        return self.waiting

    def call_soon_threadsafe(self, callback: Any, *args: Any) -> None:
        self.posted.append((callback, args))

    def run(self) -> None:
        posted, self.posted = self.posted, []
        for callback, args in posted:
            callback(*args)


class Clock:
    """A sampler of a fake loop, in the time of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(delays, "monotonic", lambda: self.now)
        self.loop = FakeLoop()
        self.sampler = DelaySampler(self.loop)

    def sample(self, times: int = 1) -> None:
        for _ in range(times):
            self.now += INTERVAL
            self.sampler.look(Moment(self.now, 0.0, 0.0), Collections())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_loop_that_waits_has_no_delay_and_is_left_alone(clock: Clock) -> None:
    clock.loop.waiting = True
    clock.sample(BETWEEN)
    assert clock.loop.posted == []
    assert clock.sampler.mean() == 0.0


def test_a_loop_that_waits_is_woken_now_and_then(clock: Clock) -> None:
    clock.loop.waiting = True
    clock.sample(BETWEEN)
    clock.now += 2 * INTERVAL
    clock.sample()
    assert len(clock.loop.posted) == 1
    clock.loop.run()
    clock.sample(BETWEEN)
    assert clock.loop.posted == []


def test_a_wake_that_is_lost_stays_unanswered(clock: Clock) -> None:
    clock.loop.waiting = True
    clock.now += HEARTBEAT
    clock.sample()
    began = clock.now
    clock.sample(1000)
    assert clock.sampler.unanswered() == clock.now - began
    assert len(clock.loop.posted) == MOST
    clock.loop.run()
    assert clock.sampler.unanswered() == 0.0


def test_a_stall_counts_with_every_sample_in_it(clock: Clock) -> None:
    clock.sample(10)
    assert clock.sampler.mean() == pytest.approx(sum(range(10)) * INTERVAL / 10)
    clock.now += INTERVAL
    clock.loop.run()
    assert clock.sampler.mean() == pytest.approx(sum(range(1, 11)) * INTERVAL / 10)


def test_delays_are_forgotten_after_a_window(clock: Clock) -> None:
    clock.sample(10)
    clock.loop.run()
    assert clock.sampler.mean() > 0.0
    clock.now += WINDOW + INTERVAL
    assert clock.sampler.mean() == 0.0


def test_looks_that_come_close_together_are_one_sample(clock: Clock) -> None:
    clock.sample()
    for _ in range(10):
        clock.sampler.look(Moment(clock.now, 0.0, 0.0), Collections())
    assert len(clock.loop.posted) == 1


# Causes


def a_run(*, stuck: float = 0.0, waiting: bool = False, stall: Stall | None = None, **measured: float) -> health.Run:
    """Return a run with these measurements, whose limits are 10 and 0.5 seconds."""
    watch = SimpleNamespace(
        stuck_for=lambda now: stuck, stall=stall, loop=SimpleNamespace(is_waiting=lambda: waiting), thread_id=-1
    )
    sampler = SimpleNamespace(
        unanswered=lambda: measured.get("unanswered", 0.0), mean=lambda: measured.get("mean", 0.0)
    )
    return health.Run(watch, sampler, 10.0, 0.5)  # type: ignore[arg-type]


def test_a_stall_is_trouble_from_its_limit_on() -> None:
    place, task = Place("app.py", 8, "report"), TaskView(1, "Task-7", "main", "running", (), "", ())
    stall = Stall("blocked", 12.0, 0.0, place=place, task=task)
    assert a_run(stuck=9.9, stall=stall).stall() == {}
    assert a_run(stuck=12.34, stall=stall).stall() == {
        "cause": "blocked",
        "seconds": 12.3,
        "at": "app.py:8, in report",
        "task": "Task-7",
    }
    assert a_run(stuck=12.34).stall() == {"cause": "stalled", "seconds": 12.3}


def test_a_loop_that_waits_and_does_not_wake_is_trouble() -> None:
    assert a_run(waiting=True, unanswered=11.0).stall() == {"cause": "unresponsive", "seconds": 11.0}
    assert a_run(waiting=True, unanswered=9.0).stall() == {}
    assert a_run(unanswered=11.0).stall() == {}  # it makes progress


def test_a_delay_is_trouble_above_its_limit() -> None:
    assert a_run(mean=0.5).delay() == {}
    assert a_run(mean=0.6, waiting=True).delay() == {"cause": "delay", "delay": 0.6, "max_delay": 0.5}
