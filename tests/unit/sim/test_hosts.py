"""Simulated hosts: processes that crash, pause and start again, clocks, alarms, power cuts."""

import asyncio
import os
import signal
import socket
import sys
import time

import pytest

from loopcore import sim
from tests.unit.sim.echoing import SERVER, connected, echo, simulated


def test_timeouts_and_alarms_follow_the_clock_of_their_host() -> None:
    ended: dict[str, float] = {}

    async def program() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("127.0.0.1", 5000))
            sock.settimeout(10)
            with pytest.raises(TimeoutError):
                sock.recv(1)
        ended["timeout"] = sim.now()
        if sys.platform != "win32":
            rang = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, rang.set)
            signal.setitimer(signal.ITIMER_REAL, 10, 4)
            assert signal.getitimer(signal.ITIMER_REAL) == (pytest.approx(10), pytest.approx(4))
            await rang.wait()
            ended["alarm"] = sim.now()
            rang.clear()
            await rang.wait()
            ended["again"] = sim.now()

    async def main() -> None:
        sim.host("fast", program, clock_rate=2.0)
        await asyncio.sleep(20)

    simulated(main)
    moments = [5, 10, 12] if sys.platform != "win32" else [5]
    assert list(ended.values()) == pytest.approx(moments, abs=0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="no alarms on Windows")
def test_a_process_that_is_started_again_has_no_signals_of_the_one_before() -> None:
    rang: list[str] = []
    pids: list[int] = []

    async def program() -> None:
        pids.append(os.getpid())
        if len(pids) == 1:
            signal.signal(signal.SIGALRM, lambda *_: rang.append("alarm"))
            signal.alarm(5)
        else:
            assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
            assert signal.alarm(0) == 0
        await asyncio.sleep(100)

    async def main() -> None:
        server = sim.host("server", program)
        await asyncio.sleep(1)
        server.crash()
        await asyncio.sleep(10)
        server.restart()
        await asyncio.sleep(10)
        assert len({os.getpid(), *pids}) == 3
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        os.kill(os.getpid(), 0)

    simulated(main)
    assert not rang


def test_a_crash_runs_no_finally_and_its_kernel_closes_the_connections() -> None:
    ended: list[str] = []

    async def fragile() -> None:
        try:
            await echo()
        finally:
            ended.append("finally")

    async def main() -> bytes:
        server = sim.host("server", fragile)
        reader, writer = await connected()
        writer.write(b"hello")
        assert await reader.read(100) == b"hello"
        server.crash()
        await asyncio.sleep(1)
        assert not ended
        data = await reader.read(100)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*SERVER)
        writer.close()
        server.restart()
        reader, writer = await connected()
        writer.write(b"again")
        assert await reader.read(100) == b"again"
        writer.close()
        return data

    assert simulated(main) == b""


def test_after_a_power_cut_the_peer_learns_it_from_what_it_sends_later() -> None:
    async def main() -> None:
        server = sim.host("server", echo)
        reader, writer = await connected()
        server.power_cut()
        writer.write(b"into the void")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(100), 60)
        server.restart()
        with pytest.raises(ConnectionResetError):
            await reader.read(100)
        writer.close()

    simulated(main)


def test_a_paused_process_stands_still_while_its_kernel_accepts() -> None:
    async def main() -> float:
        server = sim.host("server", echo)
        await asyncio.sleep(0.1)
        server.pause()
        reader, writer = await asyncio.open_connection(*SERVER)
        writer.write(b"wait")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting := asyncio.ensure_future(reader.read(100))), 7)
        server.go_on()
        assert await waiting == b"wait"
        writer.close()
        return sim.now()

    assert 7 < simulated(main) < 7.2


def test_clocks_of_hosts_are_wrong_as_they_were_made() -> None:
    shown: dict[str, float] = {}

    async def clock() -> None:
        begin = time.monotonic()
        shown["wall"] = time.time()
        await asyncio.sleep(10)
        shown["passed"] = time.monotonic() - begin

    async def main() -> float:
        sim.host("skewed", clock, clock_offset=100.0, clock_rate=2.0)
        wall = time.time()
        await asyncio.sleep(6)
        return wall

    assert shown == {}
    wall = simulated(main)
    assert shown["wall"] - wall == pytest.approx(100, abs=0.1)
    assert shown["passed"] == pytest.approx(10)


def test_what_a_hosts_program_raises_ends_the_simulation() -> None:
    async def broken() -> None:
        await asyncio.sleep(1)
        raise LookupError("lost")

    async def main() -> None:
        sim.host("server", broken)
        await asyncio.sleep(10)

    with pytest.raises(LookupError, match="lost"):
        simulated(main)


def test_a_host_that_spins_lets_time_pass() -> None:
    async def spins() -> None:
        until = time.monotonic() + 0.01
        while time.monotonic() < until:
            await asyncio.sleep(0)

    async def main() -> None:
        sim.host("spinning", spins)
        await asyncio.sleep(1)

    simulated(main)
