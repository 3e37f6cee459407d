"""The plugin `shed`: an overloaded server refuses connections, serves those it has accepted in time, and recovers."""

import asyncio
import logging
import math
import socket
import time
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore_plugins.policy import Shed
from loopcore_plugins.policy.delay import DelayProbe
from loopcore_plugins.policy.throttle import CALM, PERIOD, Throttle
from tests.plugins.policy.model import ModelLoop, arrivals, percentile_99

pytestmark = pytest.mark.loopcore_only

PATIENCE = 30.0


async def echo_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.readline())
    writer.close()


async def is_served(port: int) -> bool:
    """Connect, and tell whether there is an answer; a reset is none."""
    writer = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\n")
        return await reader.readline() == b"hello\n"
    except ConnectionError:
        return False
    finally:
        if writer is not None:
            writer.close()
            try:
                await writer.wait_closed()
            except ConnectionError:
                pass


async def be_late(rounds: int = 10) -> None:
    """Keep the loop for longer than the bound, some times."""
    for _ in range(rounds):
        time.sleep(0.03)  # what is tested is a loop that is blocked
        await asyncio.sleep(0)


async def overload(port: int) -> list[bool]:
    """Connect again and again to a server whose loop is blocked again and again."""
    served = []
    blocked = asyncio.create_task(be_late(40))
    while not blocked.done():
        served.append(await is_served(port))
    return served


async def recovered(shed: Shed, port: int) -> bool:
    """Wait until the episode is over; tell whether a connection is served then."""
    async with asyncio.timeout(PATIENCE):
        while shed._throttle.shedding:
            await asyncio.sleep(0.01)
    return await is_served(port)


async def serve_overloaded(shed: Shed | None) -> tuple[list[bool], bool]:
    server = await asyncio.start_server(echo_once, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        first = await is_served(port)
        served = await overload(port)
        return [first, *served], shed is None or await recovered(shed, port)


def test_without_it_an_overloaded_server_takes_everybody(backend_name: str) -> None:
    served, _ = loopcore.run(serve_overloaded(None), backend=backend_name)
    assert all(served)


def test_with_it_some_are_refused_until_the_overload_is_over(
    backend_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "loopcore.plugin.shed")
    shed = Shed(delay=0.02)
    served, again = loopcore.run(serve_overloaded(shed), backend=backend_name, plugins=[shed])
    assert served[0]
    assert not all(served)
    assert again
    counters = shed.counters()
    assert counters["refused"] == served.count(False)
    assert counters["admitted"] == served.count(True) + 1
    assert counters["episodes"] >= 1
    assert [record.levelname for record in caplog.records][:2] == ["WARNING", "INFO"]


def test_a_loop_counts_what_is_refused_and_by_which_listener(backend_name: str) -> None:
    shed = Shed(delay=0.02)

    async def program() -> tuple[int, str]:
        loop: Any = asyncio.get_running_loop()
        server = await asyncio.start_server(echo_once, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await overload(port)
            return loop.counters().connections_refused, f"refused.{port}"

    refused, key = loopcore.run(program(), backend=backend_name, plugins=[shed])
    assert refused == shed.counters()["refused"] == shed.counters()[key] > 0


def test_of_two_listeners_only_the_one_that_is_named_refuses(backend_name: str) -> None:
    async def program() -> tuple[list[bool], list[bool]]:
        loop: Any = asyncio.get_running_loop()
        public = await asyncio.start_server(echo_once, "127.0.0.1", 0)
        health = await asyncio.start_server(echo_once, "127.0.0.1", 0)
        ports = [server.sockets[0].getsockname()[1] for server in (public, health)]
        loop.probes.register(Shed(delay=0.02, port=ports[0]))
        async with public, health:
            served = await asyncio.gather(*(overload(port) for port in ports))
        return served[0], served[1]

    public, health = loopcore.run(program(), backend=backend_name)
    assert not all(public)
    assert all(health)


def test_a_unix_listener_is_named_by_its_path(backend_name: str, tmp_path: Any) -> None:
    shed = Shed(delay=1.0)
    shed._throttle.measure(0.0, 2.0)  # late

    async def program() -> bytes:
        server = await asyncio.start_unix_server(echo_once, tmp_path / "socket")
        async with server:
            reader, writer = await asyncio.open_unix_connection(tmp_path / "socket")
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

    assert loopcore.run(program(), backend=backend_name, plugins=[shed]) == b""
    assert shed.counters()[f"refused.{tmp_path / 'socket'}"] == 1


def test_it_measures_only_while_connections_come(backend_name: str) -> None:
    shed = Shed(delay=0.02)

    async def program() -> tuple[bool, bool]:
        server = await asyncio.start_server(echo_once, "127.0.0.1", 0)
        async with server:
            await is_served(server.sockets[0].getsockname()[1])
        assert shed._probe is not None
        before = shed._probe._handle is not None
        async with asyncio.timeout(PATIENCE):
            while shed._probe._handle is not None:
                await asyncio.sleep(0.01)
        return before, True

    assert loopcore.run(program(), backend=backend_name, plugins=[shed]) == (True, True)


def test_taken_out_at_run_time_it_lets_everybody_in(backend_name: str) -> None:
    shed = Shed(delay=0.02)

    async def program() -> list[bool]:
        loop: Any = asyncio.get_running_loop()
        loop.probes.register(shed)
        server = await asyncio.start_server(echo_once, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            await overload(port)
            loop.probes.unregister(shed)
            assert shed._probe is not None
            assert shed._probe._handle is None  # it does not measure
            return await overload(port)

    assert all(loopcore.run(program(), backend=backend_name))


# In virtual time


def simulate(load: float, delay: float | None, work: float = 0.005) -> ModelLoop:
    """Half a minute at a tenth of the capacity, half a minute at `load` times that, and half a minute as before."""
    loop = ModelLoop(work)
    if delay is not None:
        loop.shed = Shed(delay=delay)
        loop.shed.loopcore_plugin_registered(loop)
    rates = [0.1 / work, load / work, 0.1 / work]
    loop.run([moment for part, rate in enumerate(rates) for moment in arrivals(rate, 30.0 * part, 30.0 * part + 30)])
    return loop


def test_in_the_model_an_overloaded_server_without_it_never_catches_up() -> None:
    times = simulate(3, None).latencies
    unloaded = percentile_99(times, 0, 30)
    assert percentile_99(times, 30, 60) > 1000 * unloaded
    assert percentile_99(times, 62, 90) > 1000 * unloaded


@pytest.mark.parametrize("load", [1.5, 2, 3])
def test_in_the_model_those_accepted_are_served_within_twice_the_usual_time(load: float) -> None:
    loop = simulate(load, delay=0.01)
    unloaded = percentile_99(loop.latencies, 0, 30)
    assert percentile_99(loop.latencies, 30, 60) <= 2 * unloaded
    served = sum(30 <= arrival < 60 for arrival, _ in loop.latencies)
    assert served * loop.work / 30 >= 0.6  # and the server is used
    assert percentile_99(loop.latencies, 62, 90) <= 1.1 * unloaded
    came = len(arrivals(0.1 / loop.work, 60, 90)) - len(arrivals(0.1 / loop.work, 60, 62))
    assert sum(arrival >= 62 for arrival, _ in loop.latencies) >= 0.99 * came


# The parts


def test_one_late_measurement_refuses_and_leaves_no_limit() -> None:
    throttle = Throttle(bound=0.1)
    throttle.measure(0.0, 0.2)
    assert not throttle.admit(0.0, 0.0)
    throttle.measure(0.01, 0.0)
    assert throttle.admit(0.01, 0.0)
    assert throttle.rate is None
    assert throttle.shedding


def test_what_is_overdue_refuses_before_it_is_measured() -> None:
    throttle = Throttle(bound=0.1)
    assert throttle.admit(0.0, 0.1)
    assert not throttle.admit(0.0, 0.11)


def drive(throttle: Throttle, begin: float, end: float, delay: float, step: float = 0.01) -> int:
    """A connection and a measurement each `step`; return how many pass."""
    rounds = range(round(begin / step), round(end / step))
    passed = 0
    for number in rounds:
        passed += throttle.admit(number * step, 0.0)
        throttle.measure(number * step, delay)
    return passed


def test_lateness_that_lasts_limits_the_rate_and_calm_lifts_it() -> None:
    throttle = Throttle(bound=0.1)
    assert drive(throttle, 0, 1, 0.0) == 100
    drive(throttle, 1, 2, 0.15)
    assert throttle.rate is not None
    limit = throttle.rate
    slow = drive(throttle, 2, 3, 0.0)
    assert 0 < slow < 100
    assert throttle.rate > limit
    drive(throttle, 3, 20, 0.0)
    assert throttle.rate is None
    assert not throttle.shedding
    assert drive(throttle, 20, 21, 0.0) == 100
    assert CALM > PERIOD


def test_what_was_measured_before_a_pause_refuses_nothing_after_it() -> None:
    throttle = Throttle(bound=0.1)
    throttle.measure(0.0, 0.2)
    throttle.forget()
    assert throttle.admit(10.0, 0.0)
    drive(throttle, 11.0, 11.11, 0.15)  # a period that is late
    throttle.forget()
    drive(throttle, 11.2, 11.31, 0.15)
    assert throttle.rate is None  # one late period is not two


def test_measuring_ends_with_what_it_has_found() -> None:
    shed = Shed(delay=0.1)
    shed.loopcore_plugin_registered(ModelLoop(work=0.0))
    assert not shed._measured(1000.0, 0.2)
    assert shed._throttle.admit(1000.0, 0.0)


def test_a_probe_measures_the_longer_of_the_two_waits() -> None:
    told: list[float] = []
    loop = ModelLoop(work=0.0)

    def listen(now: float, delay: float) -> bool:
        told.append(delay)
        return False

    probe = DelayProbe(loop, 1.0, listen)
    assert probe.overdue(100.0) == 0.0
    for late, waited in ((3.0, 0.5), (0.5, 3.0)):
        loop = ModelLoop(work=0.0)
        probe = DelayProbe(loop, 1.0, listen)
        probe.start()
        loop.now = 1.0 + late
        assert probe.overdue(loop.now) == late
        probe._timer_ran()
        loop.now += waited
        assert probe.overdue(loop.now) == waited
        probe._callback_ran()
    assert told == [3.0, 3.0]


@pytest.mark.parametrize("delay", [0.0, math.nan, math.inf])
def test_a_bound_that_is_none_is_an_error(delay: float) -> None:
    with pytest.raises(UsageError, match="delay must be a number of seconds above zero"):
        Shed(delay=delay)


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_a_port_that_nobody_can_listen_on_is_an_error(port: int) -> None:
    with pytest.raises(UsageError, match="port must be a listening port"):
        Shed(port=port)


def test_a_refused_socket_is_asked_for_its_name_only() -> None:
    shed = Shed(delay=0.1, port=1)
    with socket.create_server(("127.0.0.1", 0)) as sock:
        assert shed.loopcore_admit_connection(sock)
    assert shed.counters()["admitted"] == 0
