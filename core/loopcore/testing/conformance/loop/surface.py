"""asyncio's surface: the loop's methods that depend on waiting."""

import asyncio
import os
import signal
import socket
import threading

import pytest

from loopcore.loop import EventLoop
from loopcore.ports.clock import MonotonicClock
from loopcore.testing.conformance.loop.base import LoopLevel
from loopcore.testing.conformance.surroundings import Fill, Pair

FORKING = """
import asyncio, os, socket
from loopcore.ports.clock import MonotonicClock
from loopcore.loop import EventLoop

loop = EventLoop(port)
one, other = socket.socketpair()
for end in (one, other):
    end.setblocking(False)
receiving = loop.create_task(loop.sock_recv(one, 10))
loop.run_until_complete(asyncio.sleep(0))
child = os.fork()
if child == 0:
    loop.close()
    own = EventLoop(type(port)(**json.loads(sys.argv[2])))
    assert own.run_until_complete(asyncio.sleep(0.001, "child")) == "child"
    own.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
other.send(b"parent")
assert loop.run_until_complete(receiving) == b"parent"
loop.close()
one.close()
other.close()
"""


class Surface(LoopLevel):
    """Timers, threads, descriptors, sockets, signals and forks, through the loop's methods."""

    def test_timers_run_in_order_and_never_early(self, loop: EventLoop) -> None:
        async def work() -> list[tuple[float, float]]:
            came: list[tuple[float, float]] = []
            last = loop.create_future()

            def note(due: float) -> None:
                came.append((due, loop.time()))

            for delay in (0.02, 0.0, 0.01, 0.005, 0.001):
                due = loop.time() + delay
                loop.call_at(due, note, due)
            loop.call_later(0.03, last.set_result, None)
            await last
            return came

        came = self.run(loop, work())
        assert [due for due, _ in came] == sorted(due for due, _ in came)
        assert len(came) == 5
        assert all(due < at + MonotonicClock.resolution for due, at in came)

    def test_calls_from_another_thread_wake_the_loop(self, loop: EventLoop) -> None:
        async def work() -> None:
            for number in range(50):
                answer = loop.create_future()
                thread = threading.Thread(
                    target=loop.call_soon_threadsafe, args=(answer.set_result, number), daemon=True
                )
                thread.start()
                assert await answer == number
                thread.join()

        self.run(loop, work())

    def test_executor_answers(self, loop: EventLoop) -> None:
        async def work() -> list[int]:
            jobs = [loop.run_in_executor(None, abs, -number) for number in range(20)]
            answers = await asyncio.gather(*jobs)
            await loop.shutdown_default_executor()
            return [*answers]

        assert self.run(loop, work()) == [*range(20)]

    def test_reader_and_writer_are_called_while_they_are_added(self, loop: EventLoop, pair: Pair) -> None:
        async def work() -> list[str]:
            said: list[str] = []
            done = loop.create_future()

            def readable() -> None:
                said.append(f"read {pair[0].recv(10).decode()}")
                if len(said) == 2:
                    assert loop.remove_reader(pair[0])
                    done.set_result(None)
                else:
                    loop.add_writer(pair[1], writable)

            def writable() -> None:
                assert loop.remove_writer(pair[1])
                pair[1].send(b"two")

            loop.add_reader(pair[0], readable)
            pair[1].send(b"one")
            await done
            pair[1].send(b"three")
            await asyncio.sleep(0.01)
            return said

        assert self.run(loop, work()) == ["read one", "read two"]

    def test_readiness_is_reported_until_it_is_used_up(self, loop: EventLoop, pair: Pair) -> None:
        async def work() -> bytes:
            came: list[bytes] = []
            done = loop.create_future()

            def readable() -> None:
                came.append(pair[0].recv(1))
                if len(came) == 3:
                    loop.remove_reader(pair[0])
                    done.set_result(None)

            pair[1].send(b"abc")
            loop.add_reader(pair[0], readable)
            await done
            return b"".join(came)

        assert self.run(loop, work()) == b"abc"

    def test_sockets_accept_connect_send_and_receive(self, loop: EventLoop) -> None:
        async def serve(listening: socket.socket) -> None:
            accepted, _ = await loop.sock_accept(listening)
            with accepted:
                while part := await loop.sock_recv(accepted, 65536):
                    await loop.sock_sendall(accepted, part)

        async def work() -> bytes:
            with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as client:
                for each in (listening, client):
                    each.setblocking(False)
                serving = loop.create_task(serve(listening))
                await loop.sock_connect(client, listening.getsockname())
                sending = loop.create_task(loop.sock_sendall(client, bytes(300_000)))
                came = bytearray()
                while len(came) < 300_000:
                    came += await loop.sock_recv(client, 65536)
                await sending
                client.shutdown(socket.SHUT_WR)
                await serving
                return bytes(came)

        assert self.run(loop, work()) == bytes(300_000)

    def test_cancelled_receive_takes_no_byte_with_it(self, loop: EventLoop, pair: Pair) -> None:
        async def work() -> bytes:
            receiving = loop.create_task(loop.sock_recv(pair[0], 10))
            await asyncio.sleep(0)
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
            pair[1].send(b"kept")
            return await loop.sock_recv(pair[0], 10)

        assert self.run(loop, work()) == b"kept"

    def test_send_waits_for_room(self, loop: EventLoop, pair: Pair, fill: Fill) -> None:
        async def work() -> None:
            filled = fill(pair[0])
            sending = loop.create_task(loop.sock_sendall(pair[0], b"last"))
            await asyncio.sleep(0.001)
            assert not sending.done()
            came = 0
            while came < filled + 4:
                came += len(await loop.sock_recv(pair[1], 1 << 20))
            await sending

        self.run(loop, work())

    @pytest.mark.skipif(os.name != "posix", reason="signals that a loop can handle")
    def test_signal_wakes_the_loop_and_its_handler_runs_in_it(self, loop: EventLoop) -> None:
        async def work() -> None:
            came = loop.create_future()
            loop.add_signal_handler(signal.SIGUSR1, came.set_result, None)
            threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            await came
            assert loop.remove_signal_handler(signal.SIGUSR1)

        self.run(loop, work())

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork(2)")
    def test_loop_in_a_forked_child_disturbs_none_of_its_parents(self) -> None:
        self.run_beside(FORKING)
