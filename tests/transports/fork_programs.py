"""Programs that fork. test_fork.py runs each in a process of its own: a fork copies the locks of other threads.

    python -m tests.transports.fork_programs NAME BACKEND

Ends with 0 if all was as it should be, in the child as well.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import loopcore
from tests.oracle import ORACLE

MakeLoop = Callable[[], asyncio.AbstractEventLoop]
PATIENCE = 20.0
"""Seconds until a process that hangs ends itself (SIGALRM), and so fails its test."""


def in_child(work: Callable[[], object]) -> int:
    """Fork; the child does `work` and ends, with 1 if that failed. Return its number."""
    pid = os.fork()
    if pid:
        return pid
    signal.alarm(int(PATIENCE))  # not inherited
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def reap(pid: int) -> None:
    """Wait until the child has ended, and hold it to its success."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, f"the child ended with {code}"


def run(make: MakeLoop, main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(main)


@contextlib.asynccontextmanager
async def echoing() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yield a connection to a server that sends everything back; leave neither behind, nor the server's task."""
    served = asyncio.Event()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()
        served.set()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    yield reader, writer
    writer.close()
    await writer.wait_closed()
    await served.wait()
    server.close()


async def everything_works() -> None:
    """TCP, a subprocess, a signal, a thread, a timer."""
    loop = asyncio.get_running_loop()
    async with echoing() as (reader, writer):
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    assert await process.communicate(b"through cat") == (b"through cat", None)
    caught = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR2, caught.set_result, None)
    os.kill(os.getpid(), signal.SIGUSR2)
    await caught
    assert loop.remove_signal_handler(signal.SIGUSR2)
    assert await asyncio.to_thread(sum, (1, 2)) == 3
    await asyncio.sleep(0.001)


def make_and_close(make: MakeLoop) -> Any:
    loop = make()
    loop.close()
    return loop


def child_of_a_running_loop(make: MakeLoop) -> None:
    """The child makes a loop of its own while the parent's is running, and that one is not disturbed."""

    async def main() -> None:
        async with echoing() as (reader, writer):
            for _ in range(3):
                pid = in_child(lambda: run(make, everything_works()))
                writer.write(b"meanwhile")
                assert await reader.readexactly(9) == b"meanwhile"
                reap(pid)
                await everything_works()

    run(make, main())


def child_that_closes(make: MakeLoop) -> None:
    """The child closes the loop it has inherited, idle; the parent's misses nothing."""
    loop = make()
    near, far = socket.socketpair()
    seen: list[str] = []
    loop.add_reader(near, lambda: seen.append(near.recv(1).decode()))
    loop.add_signal_handler(signal.SIGUSR1, seen.append, "signal")
    reap(in_child(loop.close))

    def check() -> None:
        far.send(b"x")
        os.kill(os.getpid(), signal.SIGUSR1)
        threading.Timer(0.05, loop.call_soon_threadsafe, [loop.stop]).start()

    loop.call_soon(check)
    loop.run_forever()
    assert sorted(seen) == ["signal", "x"]
    loop.run_until_complete(everything_works())
    loop.close()


def child_that_goes_on(make: MakeLoop) -> None:
    """A loop made before the fork, and used before, goes on in both, each for itself."""
    loop = make()
    loop.run_until_complete(everything_works())
    near, far = socket.socketpair()
    seen: list[bytes] = []
    loop.add_reader(near, lambda: seen.append(near.recv(1)))

    def work() -> None:
        loop.run_until_complete(everything_works())
        assert seen == []
        loop.remove_reader(near)
        loop.close()

    pid = in_child(work)
    loop.run_until_complete(everything_works())
    reap(pid)
    far.send(b"x")
    loop.run_until_complete(everything_works())
    assert seen == [b"x"]
    loop.close()


class _Observer:
    @loopcore.hookimpl
    def loopcore_tick_end(self) -> None:
        """Do nothing."""


def forked_while_plugins_change(make: MakeLoop) -> None:
    """A thread of the parent that adds or takes out a plugin at that moment does not hold up the child."""
    loop = make()
    held, done = threading.Event(), threading.Event()

    def change() -> None:
        with loop.probes._lock:  # type: ignore[attr-defined]
            held.set()
            done.wait()

    thread = threading.Thread(target=change)
    thread.start()
    held.wait()

    def work() -> None:
        loop.probes.register(_Observer())  # type: ignore[attr-defined]

    reap(in_child(work))
    done.set()
    thread.join()
    loop.close()


def child_that_watches_in_vain(make: MakeLoop) -> None:
    """What the child watches with the loop it has inherited does not end the waits of its parent."""
    loop = make()
    ready, go = os.pipe()

    def work() -> None:
        one, other = socket.socketpair()
        other.send(b"x")
        loop.add_reader(one, loop.stop)
        loop.run_forever()
        os.write(go, b"x")
        signal.pause()  # with `one` ready and registered

    pid = in_child(work)
    assert os.read(ready, 1) == b"x"
    polls = loop.counters().polls  # type: ignore[attr-defined]
    loop.run_until_complete(asyncio.sleep(0.2))
    assert loop.counters().polls - polls < 10  # type: ignore[attr-defined]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    loop.close()


def signals_of_the_child(make: MakeLoop) -> None:
    """A signal sent to the child is not the parent's, and the parent's still come."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        caught: list[int] = []
        loop.add_signal_handler(signal.SIGUSR1, caught.append, 1)
        ready, go = os.pipe()

        def work() -> None:
            os.write(go, b"x")
            os.read(hold, 1)

        hold, release = os.pipe()
        pid = in_child(work)
        assert os.read(ready, 1) == b"x"
        os.kill(pid, signal.SIGUSR1)
        os.write(release, b"x")
        reap(pid)
        await asyncio.sleep(0.01)
        assert caught == []
        os.kill(os.getpid(), signal.SIGUSR1)
        while not caught:
            await asyncio.sleep(0)
        assert caught == [1]

    run(make, main())


def written_before(make: MakeLoop) -> None:
    """What was written before the fork is sent once, also by a child that leaves the loop by an exception."""
    near, far = socket.socketpair()
    parent = os.getpid()

    async def main() -> None:
        _, writer = await asyncio.open_connection(sock=near)
        writer.write(b"once")
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        reap(pid)
        writer.close()
        await writer.wait_closed()

    try:
        run(make, main())
    except SystemExit:
        if os.getpid() == parent:
            raise
        os._exit(0)
    near.close()
    received = b""
    while part := far.recv(100):
        received += part
    assert received == b"once", received


def written_to_a_loop_that_stands_still(make: MakeLoop) -> None:
    """What was written between two runs is sent once, by the parent, also if the child closes the loop or runs it."""
    loop = make()

    async def connect(sock: socket.socket) -> asyncio.StreamWriter:
        return (await asyncio.open_connection(sock=sock))[1]

    def run_on() -> None:
        loop.run_until_complete(asyncio.sleep(0))

    for work in (loop.close, run_on):
        near, far = socket.socketpair()
        writer = loop.run_until_complete(connect(near))
        writer.write(b"once")
        reap(in_child(work))
        writer.close()
        loop.run_until_complete(writer.wait_closed())
        received = b""
        while part := far.recv(100):
            received += part
        assert received == b"once", received
    loop.close()


def woken_before_its_first_wait(make: MakeLoop) -> None:
    """A wake that comes before the child has waited for the first time, from a thread or a signal, is not lost."""
    loop = make()

    def work() -> None:
        backend = loop.backend  # type: ignore[attr-defined]
        backend.wake()
        backend.wait(None)  # without end, but for the wake

    reap(in_child(work))
    loop.close()


def backend_of_a_factory(make: MakeLoop) -> None:
    """A child's backend is made as its parent's was, also by a function that gives its class arguments."""
    import loopcore
    from loopcore.selection.discovery import register_backend

    class Configured(type(make_and_close(make).backend)):  # type: ignore[misc]
        def __init__(self, setting: int) -> None:
            super().__init__()
            self.setting = setting

    register_backend("configured", lambda: Configured(7))
    loop = loopcore.new_event_loop("configured")

    def work() -> None:
        loop.run_until_complete(everything_works())
        assert loop.backend.setting == 7  # type: ignore[attr-defined]
        loop.close()

    reap(in_child(work))
    loop.close()


def square_all(numbers: Any, squares: Any, make: MakeLoop) -> None:
    for number in iter(numbers.get, None):
        run(make, everything_works())
        squares.put(number * number)


def multiprocessing_by_fork(make: MakeLoop) -> None:
    """Processes of multiprocessing's, started by fork from a running loop, run loops of their own."""

    async def main() -> None:
        context: Any = multiprocessing.get_context("fork")
        numbers, squares = context.SimpleQueue(), context.SimpleQueue()
        workers = [context.Process(target=square_all, args=(numbers, squares, make)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for number in (1, 2, 3, None, None):
            numbers.put(number)
        found = [await asyncio.to_thread(squares.get) for _ in range(3)]
        assert sorted(found) == [1, 4, 9]
        for worker in workers:
            await asyncio.to_thread(worker.join)
            assert worker.exitcode == 0
        await everything_works()

    run(make, main())


def started_programs(make: MakeLoop) -> None:
    """Programs that are started by fork and exec (preexec_fn wants a fork) leave the parent's loop alone."""

    async def main() -> None:
        async with echoing() as (reader, writer):
            subprocess.run(["true"], preexec_fn=os.setsid, check=True)
            process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1, preexec_fn=os.setsid)
            assert await process.communicate(b"x") == (b"x", None)
            writer.write(b"still here")
            assert await reader.readexactly(10) == b"still here"
        await everything_works()

    run(make, main())


def main(program: Callable[[MakeLoop], None] | None = None) -> None:
    """Run the program that the command line names, or this one."""
    signal.alarm(int(PATIENCE))
    name, backend = sys.argv[1:]
    if backend == ORACLE:
        make: MakeLoop = asyncio.SelectorEventLoop
    else:
        from loopcore import new_event_loop

        def make() -> asyncio.AbstractEventLoop:
            return new_event_loop(backend)

    (program or globals()[name])(make)


if __name__ == "__main__":
    main()
