"""Threads of simulated programs: jobs, locks, ends."""

import _thread
import asyncio
import contextlib
import contextvars
import queue
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from loopcore.kernel.flags import HAS_GIL
from loopcore.sim import scenario
from loopcore.sim.errors import DeadlockError, SimulationError
from loopcore.sim.running import Outcome, simulate
from loopcore.sim.tape import Random, Replay, Tape
from loopcore_backends.sim.threads import watching

Main = Callable[[], Coroutine[Any, Any, Any]]


def outcome_of(main: Main, seed: int | None = None) -> Outcome:
    """Run `main`; without a seed as asyncio does."""
    outcome = simulate(main, Tape() if seed is None else Tape(Random(seed)))
    if outcome.error is not None:
        raise outcome.error
    return outcome


def result_of(main: Main, seed: int | None = None) -> Any:
    return outcome_of(main, seed).result


def test_jobs_take_simulated_time_side_by_side():
    def work(i: int) -> tuple[int, str]:
        time.sleep(10)
        return i, threading.current_thread().name

    async def main() -> Any:
        return await asyncio.gather(*(asyncio.to_thread(work, i) for i in range(3))), time.monotonic()

    began = time.monotonic()
    found, ended = result_of(main)
    assert found == [(0, "loopcore_0"), (1, "loopcore_1"), (2, "loopcore_2")]
    assert 100_010 <= ended < 100_010.1
    assert time.monotonic() - began < 5


def test_the_loop_resolves_names_in_its_pool():
    async def main() -> bytes:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()

        async with await asyncio.start_server(answer, "localhost", 7000):
            reader, writer = await asyncio.open_connection("localhost", 7000)
            writer.write(b"hello\n")
            answered = await reader.read()
            writer.close()
            return answered

    assert result_of(main) == b"hello\n"


def test_the_same_tape_gives_the_same_log():
    async def main() -> list[int]:
        order: list[int] = []

        def work(i: int) -> None:
            time.sleep(0.01 * i)
            order.append(i)

        await asyncio.gather(*(asyncio.to_thread(work, i) for i in range(4)))
        return order

    orders = set()
    for seed in range(50):
        one = outcome_of(main, seed)
        other = simulate(main, Tape(Replay(one.tape.choices)))
        assert (one.log, one.result, one.tape.choices) == (other.log, other.result, other.tape.choices)
        orders.add(tuple(one.result))
    assert len(orders) > 1


def test_two_hundred_runs_leave_no_thread():
    async def main() -> None:
        threading.Thread(target=threading.Event().wait).start()
        await asyncio.to_thread(time.sleep, 1)

    before = threading.enumerate()
    for seed in range(200):
        outcome_of(main, seed)
    assert threading.enumerate() == before


def test_a_thread_that_never_ends_is_named():
    def never() -> None:
        while True:
            with contextlib.suppress(BaseException):
                threading.Event().wait()

    async def main() -> None:
        threading.Thread(target=never, name="stubborn", daemon=True).start()

    outcome = simulate(main, Tape())
    assert isinstance(outcome.error, SimulationError)
    assert "stubborn" in str(outcome.error)
    left = [thread for thread in threading.enumerate() if thread.name == "stubborn"]
    threading._active.pop(left[0].ident)  # type: ignore[attr-defined]  # it is parked for ever


def test_finally_blocks_of_parked_threads_run_unseen(capsys: pytest.CaptureFixture[str]):
    seen = []

    def work() -> None:
        try:
            time.sleep(1000)
        finally:
            seen.append("ended")
            raise ValueError("nobody sees this")

    async def main() -> None:
        threading.Thread(target=work).start()
        pool = ThreadPoolExecutor(1)
        pool.submit(print, "works")
        await asyncio.sleep(1)
        assert not seen

    outcome_of(main)
    assert seen == ["ended"]
    assert capsys.readouterr() == ("works\n", "")


def test_exceptions_reach_the_caller_and_the_excepthook(monkeypatch: pytest.MonkeyPatch):
    reported: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)

    def fail() -> None:
        raise ValueError("no")

    async def main() -> None:
        thread = threading.Thread(target=fail)
        thread.start()
        assert thread.is_alive()
        with pytest.raises(ValueError, match="no"):
            await asyncio.to_thread(fail)
        thread.join()
        assert not thread.is_alive()

    outcome = outcome_of(main)
    assert [(report.exc_type, report.thread.name) for report in reported] == [(ValueError, "Thread-1 (fail)")]
    assert [entry.text for entry in outcome.log if entry.kind == "error"] == [
        "thread Thread-1 (fail): ValueError('no')"
    ]


def test_a_raw_thread_that_raises_is_reported(monkeypatch: pytest.MonkeyPatch):
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reported.append(report.exc_value))
    error = ValueError("no")

    def fail(error: Exception) -> None:
        raise error

    async def main() -> None:
        _thread.start_new_thread(fail, (error,))
        await asyncio.sleep(1)

    outcome_of(main)
    assert reported == [error]
    reported.clear()


def test_a_worker_waits_for_a_coroutine():
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")

    async def main() -> tuple[Any, int]:
        loop = asyncio.get_running_loop()

        async def answer() -> float:
            await asyncio.sleep(5)
            return loop.time()

        def work() -> Any:
            future = asyncio.run_coroutine_threadsafe(answer(), loop)
            with pytest.raises(TimeoutError):
                future.result(1)
            before = loop.time()
            return future.result() - before

        variable.set(7)
        return await asyncio.to_thread(work), await asyncio.to_thread(variable.get)

    waited, value = result_of(main)
    assert waited == pytest.approx(4, abs=0.1)
    assert value == 7


def test_a_worker_has_a_loop_of_its_own():
    async def inner() -> int:
        await asyncio.sleep(2)
        return await asyncio.to_thread(threading.get_ident)

    def work() -> tuple[bool, float]:
        return asyncio.run(inner()) != threading.get_ident(), time.monotonic()

    async def main() -> Any:
        began = time.monotonic()
        differs, ended = await asyncio.to_thread(work)
        return differs, ended - began

    assert result_of(main) == (True, pytest.approx(2, abs=0.1))


def test_pythons_primitives_wait_in_simulated_time():
    async def main() -> list[object]:
        found: list[object] = []
        items: queue.Queue[int | None] = queue.Queue(2)

        def produce() -> None:
            for i in (0, 1, 2, 3, None):
                items.put(i)

        def consume() -> None:
            while (item := items.get()) is not None:
                found.append(item)
                time.sleep(1)

        barrier = threading.Barrier(3, timeout=100)

        def meet(i: int) -> None:
            time.sleep(i)
            barrier.wait()
            found.append(time.monotonic() - began)

        threads = [threading.Thread(target=each) for each in (produce, consume)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        began = time.monotonic()
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(meet, range(3))) == [None, None, None]
        timer = threading.Timer(60, found.append, ("timer",))
        timer.start()
        timer.join(10)
        assert timer.is_alive()
        timer.join()
        return found

    found = result_of(main)
    assert found == [0, 1, 2, 3, *[pytest.approx(2, abs=0.1)] * 3, "timer"]


def test_blocking_sockets_in_threads():
    async def main() -> bytes:
        def serve(listener: socket.socket) -> None:
            with listener.accept()[0] as connection:
                connection.sendall(connection.makefile("rb").readline().upper())

        def ask() -> bytes:
            with socket.create_connection(("localhost", 5000)) as connection:
                connection.sendall(b"hello\n")
                return b"".join(iter(lambda: connection.recv(100), b""))

        with socket.create_server(("localhost", 5000)) as listener:
            return (await asyncio.gather(asyncio.to_thread(serve, listener), asyncio.to_thread(ask)))[1]

    for seed in range(20):
        assert result_of(main, seed) == b"HELLO\n"


def test_a_lost_update_is_found():
    async def main() -> int:
        total = 0

        def add() -> None:
            nonlocal total
            before = total
            time.sleep(0.005)
            total = before + 1

        first = asyncio.create_task(asyncio.to_thread(add))
        await asyncio.sleep(0.018)
        await asyncio.to_thread(add)
        await first
        return total

    assert result_of(main) == 2
    results = [result_of(main, seed) for seed in range(200)]
    assert results.count(1) >= 3
    assert results.count(2) >= 3


def test_a_deadlock_of_two_locks_is_explained():
    async def main() -> None:
        one, other = threading.Lock(), threading.RLock()

        def take(first: Any, second: Any) -> None:
            with first:
                time.sleep(1)
                with second:
                    pass

        threading.Thread(target=take, args=(one, other), name="A").start()
        await asyncio.to_thread(take, other, one)

    outcome = simulate(main, Tape())
    assert isinstance(outcome.error, DeadlockError)
    lines = re.sub(r" \(test_threads.py:\d+\)", "", str(outcome.error)).splitlines()
    assert lines[-2:] == [
        "thread A waits for a lock, which thread loopcore_0 holds",
        "thread loopcore_0 waits for a lock, which thread A holds",
    ]


def test_what_the_loops_own_thread_blocks_on_is_explained():
    async def main() -> None:
        lock = threading.Lock()

        def take() -> None:
            lock.acquire()
            threading.Event().wait()

        threading.Thread(target=take, name="A").start()
        await asyncio.sleep(1)
        lock.acquire()

    outcome = simulate(main, Tape())
    assert isinstance(outcome.error, DeadlockError)
    lines = re.sub(r" \(test_threads.py:\d+\)", "", str(outcome.error)).splitlines()
    assert lines[-2:] == ["the main thread waits for a lock, which thread A holds", "thread A waits in Event.wait"]


def test_threads_of_a_crashed_host_stand_still():
    events: list[str] = []

    async def server() -> None:
        def work() -> None:
            events.append(f"begins on {socket.gethostname()}")
            time.sleep(2)
            events.append("ends")

        await asyncio.to_thread(work)

    async def main() -> None:
        host = scenario.host("db", server)
        await asyncio.sleep(1)
        host.crash()
        await asyncio.sleep(5)
        assert events == ["begins on db"]
        host.restart()
        await asyncio.sleep(5)

    outcome_of(main)
    assert events == ["begins on db", "begins on db", "ends"]


def test_a_host_that_blocks_stands_still_and_others_go_on():
    events: list[str] = []

    async def sleepy() -> None:
        asyncio.get_running_loop().call_later(1, events.append, "timer of the sleepy host")
        time.sleep(3)
        events.append("awake")
        await asyncio.sleep(0.1)

    async def ticking() -> None:
        for _ in range(2):
            await asyncio.sleep(1)
            events.append("tick")

    async def main() -> None:
        scenario.host("sleepy", sleepy)
        scenario.host("ticking", ticking)
        await asyncio.sleep(10)

    outcome_of(main)
    assert events == ["tick", "tick", "awake", "timer of the sleepy host"]


@pytest.mark.skipif(HAS_GIL and sys.version_info < (3, 14), reason="with a GIL, threads may cancel from Python 3.14 on")
def test_a_thread_that_cancels_a_running_callback_waits_for_its_end():
    async def main() -> list[str]:
        seen: list[str] = []
        began = threading.Event()

        def callback() -> None:
            began.set()
            time.sleep(10)
            seen.append("ended")

        def cancel(loop: asyncio.AbstractEventLoop) -> None:
            handle = loop.call_soon_threadsafe(callback)
            began.wait()
            handle.cancel()
            seen.append("cancelled")

        await asyncio.to_thread(cancel, asyncio.get_running_loop())
        return seen

    assert result_of(main) == ["ended", "cancelled"]


def test_a_loop_in_a_thread_is_that_of_its_host():
    async def server() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(writer.get_extra_info("peername")[0].encode())
            writer.close()

        def serve() -> None:
            async def run() -> None:
                await (await asyncio.start_server(answer, "db", 5000)).serve_forever()

            asyncio.run(run())

        await asyncio.to_thread(serve)

    async def client() -> str:
        async def ask() -> str:
            reader, writer = await asyncio.open_connection("db", 5000)
            answer = await reader.read()
            writer.close()
            return answer.decode()

        return await asyncio.to_thread(asyncio.run, ask())

    async def main() -> None:
        answers: list[str] = []
        scenario.host("db", server)
        await asyncio.sleep(1)

        async def keep() -> None:
            answers.append(await client())

        host = scenario.host("client", keep)
        await asyncio.sleep(5)
        assert answers == [host.addresses[0]]

    for seed in range(20):
        result_of(main, seed)


def test_pools_have_the_same_size_on_every_machine():
    async def main() -> int:
        return len(set(await asyncio.gather(*(asyncio.to_thread(work) for _ in range(20)))))

    def work() -> str:
        time.sleep(1)
        return threading.current_thread().name

    assert result_of(main) == 8


def test_thread_local_data_and_daemons():
    local = threading.local()

    def work(value: int) -> int:
        local.value = value
        time.sleep(1)
        return int(local.value)

    async def main() -> list[int]:
        thread = threading.Thread(target=threading.Event().wait, daemon=True, name="daemon")
        thread.start()
        assert thread in threading.enumerate()
        assert thread.daemon
        assert thread.ident != threading.get_ident()
        return await asyncio.gather(*(asyncio.to_thread(work, i) for i in range(4)))

    assert result_of(main) == [0, 1, 2, 3]


def test_portals_and_worker_threads_of_anyio():
    anyio = pytest.importorskip("anyio")
    to_thread, from_thread = pytest.importorskip("anyio.to_thread"), pytest.importorskip("anyio.from_thread")

    def work() -> str:
        from_thread.run(anyio.sleep, 2)
        return str(from_thread.run_sync(threading.current_thread).name)

    def portal() -> None:
        with from_thread.start_blocking_portal() as open_portal:
            open_portal.call(anyio.sleep, 1)

    async def main() -> tuple[str, float]:
        began = time.monotonic()
        name = await to_thread.run_sync(work)
        await to_thread.run_sync(portal)
        return name, time.monotonic() - began

    assert result_of(main) == ("MainThread", pytest.approx(3, abs=0.1))


_MADE_BEFORE = threading.Lock()


@pytest.mark.parametrize("who", ["thread", "main thread"])
def test_a_real_lock_that_a_parked_thread_holds_is_an_error(who: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(watching, "PATIENCE", 0.1)

    def work() -> None:
        with _MADE_BEFORE:
            time.sleep(1)

    async def main() -> None:
        jobs = asyncio.gather(*(asyncio.to_thread(work) for _ in range(2 if who == "thread" else 1)))
        await asyncio.sleep(0.5)
        with _MADE_BEFORE:
            pass
        await jobs

    outcome = simulate(main, Tape())
    assert isinstance(outcome.error, SimulationError)
    assert f"the {who} " in str(outcome.error)
    assert "made before the simulation" in str(outcome.error)
    assert not _MADE_BEFORE.locked()


def test_locks_of_a_simulation_work_after_it():
    async def main() -> tuple[Any, Any]:
        return threading.Lock(), threading.Condition()

    lock, condition = result_of(main)
    with lock:
        thread = threading.Thread(target=lock.acquire)
        thread.start()
        assert not lock.acquire(timeout=0.001)
    thread.join()
    assert lock.locked()
    with condition:
        assert not condition.wait(0.001)
