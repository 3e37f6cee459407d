"""Hosts, links, faults and invariants of a simulated program, as a test of several machines uses them."""

import asyncio
import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from loopcore import sim
from loopcore.errors import UsageError
from loopcore.sim.search import Fifo

SERVER = ("10.0.0.2", 7000)


def simulated(main: Callable[[], Any], seed: int = 0) -> Any:
    """Run `main` in asyncio's own order."""
    return sim.run(main, seed=seed, strategy=Fifo())


async def echo() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "0.0.0.0", SERVER[1])
    await server.serve_forever()


async def connected() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    while True:
        try:
            return await asyncio.open_connection(*SERVER)
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)


def test_a_round_trip_takes_what_the_link_takes() -> None:
    async def main() -> float:
        sim.host("server", echo)
        sim.link("main", "server", delays=[0.25])
        reader, writer = await connected()
        begin = time.monotonic()
        writer.write(b"hello")
        assert await reader.read(100) == b"hello"
        writer.close()
        return time.monotonic() - begin

    assert simulated(main) == pytest.approx(0.5, abs=1e-4)


def test_bandwidth_makes_what_is_large_late() -> None:
    async def main() -> float:
        sim.host("server", echo)
        sim.link("main", "server", delays=[0.0], bandwidth=1000.0)
        reader, writer = await connected()
        begin = sim.now()
        writer.write(bytes(2000))
        await reader.readexactly(2000)
        writer.close()
        return sim.now() - begin

    assert simulated(main) == pytest.approx(4.0, abs=1e-3)


def test_loss_delays_a_stream_and_drops_datagrams() -> None:
    async def main() -> tuple[bytes, int]:
        sim.host("server", echo)
        reader, writer = await connected()
        sim.link("main", "server", loss=0.5)
        for number in range(10):
            writer.write(b"%d" % number)
            await asyncio.sleep(0.001)
        data = await reader.readexactly(10)
        writer.close()
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("127.0.0.1", 5000))
        receiver.setblocking(False)
        sim.link("main", "main", loss=0.5)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(100):
                sender.sendto(b"x", ("127.0.0.1", 5000))
        await asyncio.sleep(10)
        count = 0
        with receiver:
            while True:
                try:
                    receiver.recv(10)
                except BlockingIOError:
                    return data, count
                count += 1

    outcome = sim.simulate(main, sim.Tape(seed=3))
    assert outcome.error is None
    assert outcome.result[0] == b"0123456789"
    assert simulated(main)[1] == 100
    assert min(sim.simulate(main, sim.Tape(seed=seed)).result[1] for seed in range(1, 9)) < 100


def test_a_partition_holds_data_back_and_a_heal_delivers_it() -> None:
    async def main() -> float:
        sim.host("server", echo)
        reader, writer = await connected()
        sim.partition(["main"], ["server"])
        writer.write(b"late")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting := asyncio.ensure_future(reader.read(100))), 50)
        sim.heal()
        assert await waiting == b"late"
        writer.close()
        return sim.now()

    assert 50 < simulated(main) < 51


def test_tcp_gives_up_as_linux_does() -> None:
    async def main() -> tuple[int | None, float, int | None, float]:
        sim.host("server", echo)
        reader, writer = await connected()
        sim.partition(["main"], ["server"])
        begin = sim.now()
        writer.write(b"never")
        with pytest.raises(TimeoutError) as lost:
            await reader.read(100)
        writer.close()
        given_up = sim.now() - begin
        begin = sim.now()
        with pytest.raises(TimeoutError) as refused:
            await asyncio.open_connection(*SERVER)
        return lost.value.errno, given_up, refused.value.errno, sim.now() - begin

    assert simulated(main) == (errno.ETIMEDOUT, pytest.approx(924, abs=1), errno.ETIMEDOUT, pytest.approx(127, abs=1))


def test_a_cut_works_in_one_direction() -> None:
    async def main() -> None:
        sim.host("server", echo)
        reader, writer = await connected()
        sim.cut("server", "main")
        writer.write(b"a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(100), 5)
        writer.close()

    simulated(main)


def test_a_connect_whose_answer_is_cut_off_is_not_accepted() -> None:
    async def main() -> tuple[int | None, float, float]:
        accepted: list[float] = []

        async def listener() -> None:
            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                accepted.append(sim.now())
                writer.close()

            server = await asyncio.start_server(serve, "0.0.0.0", SERVER[1])
            await server.serve_forever()

        sim.host("server", listener)
        await asyncio.sleep(0.1)
        sim.cut("server", "main")
        begin = sim.now()
        with pytest.raises(TimeoutError) as refused:
            await asyncio.open_connection(*SERVER)
        given_up = sim.now() - begin
        begin = sim.now()
        connecting = asyncio.ensure_future(asyncio.open_connection(*SERVER))
        await asyncio.sleep(50)
        assert not accepted
        sim.heal()
        _, writer = await connecting
        writer.close()
        healed = sim.now() - begin
        await asyncio.sleep(1)
        assert len(accepted) == 1
        assert accepted[0] > begin + 50
        return refused.value.errno, given_up, healed

    assert simulated(main) == (errno.ETIMEDOUT, pytest.approx(127, abs=1), pytest.approx(63, abs=1))


def test_a_refusal_that_is_cut_off_is_not_heard() -> None:
    async def main() -> tuple[int | None, float]:
        sim.host("server", lambda: asyncio.sleep(1000))
        sim.cut("server", "main")
        with pytest.raises(TimeoutError) as lost:
            await asyncio.open_connection(*SERVER)
        return lost.value.errno, sim.now()

    assert simulated(main) == (errno.ETIMEDOUT, pytest.approx(127, abs=1))


def test_a_late_answer_does_not_end_the_next_connect() -> None:
    async def main() -> None:
        sim.link("main", "main", delays=[0.1])
        with socket.create_server(("127.0.0.1", 80)) as listener, socket.socket() as client:
            client.setblocking(False)
            assert client.connect_ex(("127.0.0.1", 80)) == errno.EINPROGRESS
            await asyncio.sleep(0.15)
            client.shutdown(socket.SHUT_RDWR)
            assert client.connect_ex(("127.0.0.1", 81)) == errno.EINPROGRESS
            await asyncio.sleep(1)
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()

    simulated(main)


def test_an_acknowledgement_waits_for_room_in_the_queue_and_is_forgotten_in_the_end() -> None:
    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        listener = socket.create_server(("0.0.0.0", 80), backlog=0)
        listener.setblocking(False)
        sim.link("main", "main", delays=[0.1])
        clients = [socket.socket() for _ in range(3)]
        for client in clients:
            client.setblocking(False)
        await asyncio.gather(*(loop.sock_connect(client, ("127.0.0.1", 80)) for client in clients))
        first, _ = await loop.sock_accept(listener)
        with pytest.raises(BlockingIOError):
            listener.accept()
        await asyncio.sleep(60)
        second, _ = listener.accept()
        await loop.sock_sendall(clients[2], b"forgotten")
        with pytest.raises(ConnectionResetError):
            await loop.sock_recv(clients[2], 10)
        await loop.sock_sendall(clients[1], b"later")
        data = await loop.sock_recv(second, 10)
        for sock in (listener, first, second, *clients):
            sock.close()
        return data

    assert simulated(main) == b"later"


def test_a_listener_that_is_closed_resets_what_it_has_answered() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        listener = socket.create_server(("0.0.0.0", 80))
        sim.link("main", "main", delays=[0.1])
        with socket.socket() as client:
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", 80))
            listener.close()
            with pytest.raises(ConnectionResetError):
                await loop.sock_recv(client, 10)

    simulated(main)


@pytest.mark.parametrize("seed", range(1, 9))
def test_what_was_peeked_at_is_received(seed: int) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 80)) as listener, socket.create_connection(("127.0.0.1", 80)) as client:
            server, _ = listener.accept()
            with server:
                client.sendall(bytes(range(10)) * 2)
                shown = server.recv(10, socket.MSG_PEEK)
                assert server.recv(4) == shown[:4]
                assert server.recv(20)[: len(shown) - 4] == shown[4:]

    assert sim.simulate(main, sim.Tape(seed=seed)).error is None


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


def test_an_invariant_is_asked_after_every_step() -> None:
    async def main() -> None:
        count = 0

        def small() -> None:
            assert count < 3, count

        sim.always(small)
        for count in range(5):  # noqa: B007
            await asyncio.sleep(1)

    with pytest.raises(AssertionError) as caught:
        simulated(main)
    assert "the invariant 'small' does not hold" in caught.value.__notes__


def test_what_a_hosts_program_raises_ends_the_simulation() -> None:
    async def broken() -> None:
        await asyncio.sleep(1)
        raise LookupError("lost")

    async def main() -> None:
        sim.host("server", broken)
        await asyncio.sleep(10)

    with pytest.raises(LookupError, match="lost"):
        simulated(main)


def test_a_deadlock_says_who_waits_for_what() -> None:
    async def main() -> None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        await queue.get()

    with pytest.raises(sim.DeadlockError, match=r"Task-\d+ waits for .*queue.*test_scenarios"):
        simulated(main)


def test_a_program_that_never_ends_is_given_up() -> None:
    async def ticks() -> None:
        while True:
            await asyncio.sleep(1)

    async def spins() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(sim.LivelockError, match="60 simulated seconds"):
        sim.run(ticks, limit=60)
    with pytest.raises(sim.LivelockError, match="simulated seconds"):
        sim.run(spins, limit=0.01)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sim.host("a"), "no simulation runs here"),
        (lambda: sim.now(), "no simulation runs here"),
    ],
)
def test_outside_a_simulation_the_functions_say_so(call: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()


def test_mistakes_are_refused() -> None:
    async def main() -> None:
        sim.host("a")
        with pytest.raises(ValueError, match="'a' already"):
            sim.host("a")
        with pytest.raises(UsageError, match="no host is named 'b'; there are a, main"):
            sim.link("a", "b")
        with pytest.raises(UsageError, match="none below 0"):
            sim.link("a", "main", delays=[-1.0])
        with pytest.raises(UsageError, match="at least 0 and below 1"):
            sim.link("a", "main", loss=1.0)
        with pytest.raises(UsageError, match="two groups"):
            sim.partition(["a"])
        with pytest.raises(UsageError, match="a simulation runs already"):
            sim.run(main)

    simulated(main)
    coroutine: Any = main()
    with pytest.raises(UsageError, match="pass the function"):
        sim.run(coroutine)


def test_a_failure_is_found_shrunk_and_replayed() -> None:
    async def main() -> None:
        value = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal value
            while line := await reader.readline():
                if line == b"get\n":
                    writer.write(b"%d\n" % value)
                else:
                    value = int(line)
                    writer.write(b"ok\n")
            writer.close()

        async def increment() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", 7000)
            writer.write(b"get\n")
            writer.write(b"%d\n" % (int(await reader.readline()) + 1))
            await reader.readline()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 7000):
            async with asyncio.TaskGroup() as group:
                group.create_task(increment())
                await asyncio.sleep(0.01)
                group.create_task(increment())
            assert value == 2

    simulated(main)
    with pytest.raises(sim.SimulationFailedError) as caught:
        sim.check(main, seeds=range(200))
    found = sim.search(main, seeds=range(200)).failure
    assert found is not None
    assert len(found.changes) == 1
    assert found.changes[0].label.startswith("delay: ")
    assert f"loopcore.sim.replay(main, {found.token!r})" in str(caught.value)
    with pytest.raises(BaseExceptionGroup if isinstance(found.error, BaseExceptionGroup) else AssertionError):
        sim.replay(main, found.token)


def test_the_same_seed_is_the_same_run() -> None:
    async def main() -> None:
        sim.host("server", echo)
        reader, writer = await connected()
        for number in range(5):
            writer.write(b"%d" % number)
            await reader.read(100)
        writer.close()

    for seed in range(50):
        assert sim.diverges(main, seed) is None


def test_a_program_that_is_not_deterministic_is_found() -> None:
    runs: list[int] = []

    async def main() -> None:
        runs.append(1)
        for _ in range(len(runs)):
            sim.choose(2, "coin: heads or tails")

    found = sim.diverges(main, 0)
    assert found is not None
    assert "coin" in found.where
    assert "test_scenarios.py" in found.where


async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
    raise LookupError("in a handler")


async def in_a_handler() -> None:
    async with await asyncio.start_server(answers, "127.0.0.1", SERVER[1]):
        reader, writer = await asyncio.open_connection("127.0.0.1", SERVER[1])
        await reader.read()
        writer.close()
        await asyncio.sleep(1)


async def in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(int, "x")
    await asyncio.sleep(1)


async def in_a_caught_deadlock() -> None:
    one, other = socket.socketpair()
    with one, other:
        try:
            one.recv(1)
        except Exception:
            pass


async def in_an_exit() -> None:
    raise SystemExit(0)


@pytest.mark.parametrize(
    ("program", "error"),
    [
        (in_a_handler, LookupError),
        (in_a_callback, ValueError),
        (in_a_caught_deadlock, sim.DeadlockError),
        (in_an_exit, SystemExit),
    ],
)
def test_a_failure_that_main_does_not_raise_is_one(program: Any, error: type[BaseException]) -> None:
    failure = sim.search(program, seeds=range(1)).failure
    assert failure is not None
    assert type(failure.error) is error


def test_a_machine_without_power_sends_nothing_again() -> None:
    received: list[bytes] = []

    async def collect() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(100):
                received.append(data)

        server = await asyncio.start_server(serve, "0.0.0.0", SERVER[1])
        await server.serve_forever()

    async def client() -> None:
        _, writer = await asyncio.open_connection("server", SERVER[1])
        await asyncio.sleep(1)
        writer.write(b"ghost")
        await asyncio.sleep(100)

    async def main() -> None:
        sim.host("server", collect)
        await asyncio.sleep(0.1)
        machine = sim.host("client", client)
        await asyncio.sleep(0.5)
        sim.partition(["client"], ["server"])
        await asyncio.sleep(1)
        machine.power_cut()
        sim.heal()
        await asyncio.sleep(10)

    simulated(main)
    assert received == []


def test_a_second_partition_is_given_up_after_its_own_time() -> None:
    async def main() -> float:
        sim.host("server", echo)
        reader, writer = await connected()
        sim.partition(["main"], ["server"])
        writer.write(b"one")
        await asyncio.sleep(900)
        sim.heal()
        assert await reader.read(100) == b"one"
        sim.partition(["main"], ["server"])
        begin = sim.now()
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            await reader.read(100)
        writer.close()
        return sim.now() - begin

    assert simulated(main) == pytest.approx(924, abs=1)


def test_a_host_that_spins_lets_time_pass() -> None:
    async def spins() -> None:
        until = time.monotonic() + 0.01
        while time.monotonic() < until:
            await asyncio.sleep(0)

    async def main() -> None:
        sim.host("spinning", spins)
        await asyncio.sleep(1)

    simulated(main)


def test_a_token_of_another_program_is_noticed() -> None:
    async def main() -> None:
        if sim.choose(2, "coin: heads or tails"):
            raise LookupError

    async def other() -> None:
        pass

    failure = sim.search(main).failure
    assert failure is not None
    with pytest.raises(sim.SimulationError, match="not that of the token"):
        sim.replay(other, failure.token)
