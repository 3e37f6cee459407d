"""A server that runs out of descriptors: accepting rests, and goes on. One whose connection loses its own ends."""

import asyncio
import errno
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

from loopcore import EventLoop
from loopcore.selection.discovery import choose_backend
from loopcore.transports import acceptor
from tests.coroutines import bounded
from tests.transports.recorder import Recorder
from tests.transports.test_server import connect, needs_312, serving

OUT_OF_DESCRIPTORS = """
import asyncio, os, resource, socket, sys
from {module} import {name} as make

loop = make({argument})
messages, accepted = [], []
loop.set_exception_handler(lambda _, context: messages.append((context["message"], type(context["exception"]))))
delays = []
call_later = loop.call_later

def soon(delay, callback, *args):  # the second of rest, without waiting for it
    delays.append(delay)
    return call_later(0.01, callback, *args)

class Protocol(asyncio.Protocol):
    def connection_made(self, transport):
        accepted.append(transport)

async def main():
    server = await loop.create_server(Protocol, "127.0.0.1", 0, backlog=1)
    peers = [socket.socket() for _ in range(3)]
    for peer in peers:
        peer.setblocking(False)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    loop.call_later = soon
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # below every number in use: no new descriptor at all
    for peer in peers:
        peer.connect_ex(server.sockets[0].getsockname())
    while len(messages) < 2:  # it is tried again, and fails again
        await asyncio.sleep(0.001)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    while len(accepted) < 3:
        await asyncio.sleep(0.001)
    server.close()
    for peer in peers:
        peer.close()
    for transport in accepted:
        transport.abort()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

loop.run_until_complete(asyncio.wait_for(main(), 10))
loop.close()
assert set(messages) == {{("socket.accept() out of system resource", OSError)}}, messages
assert 1 in delays, delays
"""


@pytest.mark.skipif(sys.platform != "linux", reason="lists descriptors in /proc")
def test_without_descriptors_accepting_rests_and_then_goes_on(backend_name: str) -> None:
    if backend_name == "asyncio":
        program = OUT_OF_DESCRIPTORS.format(module="asyncio", name="SelectorEventLoop", argument="")
    else:
        program = OUT_OF_DESCRIPTORS.format(module="loopcore", name="new_event_loop", argument=repr(backend_name))
    if backend_name == "uring":
        pytest.skip("io_uring goes by the limit of the moment in which Accept was submitted")
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


@pytest.mark.loopcore_only
async def test_an_error_of_one_connection_does_not_keep_the_next_one_waiting(
    loop: asyncio.AbstractEventLoop, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond asyncio, which reports it: accept(2) says to try again."""
    if backend_name == "uring":
        pytest.skip("the kernel accepts")
    failures = [
        OSError(errno.EPROTO, "Protocol error"),
        OSError(errno.ENETUNREACH, "Network is unreachable"),
        OSError(errno.ECONNRESET, "Connection reset by peer"),
    ]
    accept = socket.socket._accept  # type: ignore[attr-defined]

    def accept_or_fail(sock: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(sock)

    monkeypatch.setattr(acceptor, "RETRY_DELAY", 3600)
    monkeypatch.setattr(socket.socket, "_accept", accept_or_fail)
    protocol = Recorder()
    async with serving(lambda: protocol) as server:
        with await connect(server):
            await asyncio.wait_for(protocol.seen("made"), 10)
            protocol.transport.abort()
    assert failures == []


@pytest.mark.loopcore_only
async def test_accepting_rests_if_the_system_forbids_it(
    loop: asyncio.AbstractEventLoop, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error concerns no single connection: the next call fails, too."""
    if backend_name == "uring":
        pytest.skip("the kernel accepts")
    calls = []

    def refuse(sock: socket.socket) -> Any:
        calls.append(sock)
        raise PermissionError(errno.EPERM, "Operation not permitted")

    reported = loop.create_future()
    loop.set_exception_handler(lambda _, context: reported.set_result(context["message"]))
    monkeypatch.setattr(acceptor, "RETRY_DELAY", 3600)
    monkeypatch.setattr(socket.socket, "_accept", refuse)
    async with serving(Recorder) as server:
        with await connect(server):
            assert await asyncio.wait_for(reported, 10) == "socket.accept() failed"
            for _ in range(3):
                await asyncio.sleep(0)
            assert len(calls) == 1


class Scarce:
    """A backend that has no memory for another descriptor the first time that it watches one again."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.refusals = 0
        self.registered: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def register(self, fd: int, interest: int) -> None:
        if fd in self.registered and not self.refusals:
            self.refusals += 1
            raise OSError(errno.ENOMEM, "no memory")
        self.registered.add(fd)
        self.inner.register(fd, interest)


@pytest.mark.loopcore_only
def test_accepting_goes_on_also_if_the_backend_refuses_the_socket_once(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Scarce(choose_backend("select").factory())
    accept = socket.socket._accept  # type: ignore[attr-defined]
    failures = [OSError(errno.EMFILE, "too many")]

    def accept_or_fail(sock: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return accept(sock)

    async def main() -> None:
        protocol = Recorder()
        reports: list[int] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: reports.append(context["exception"].errno))
        server = await loop.create_server(lambda: protocol, "127.0.0.1", 0)
        with socket.socket() as peer:
            peer.setblocking(False)
            peer.connect_ex(server.sockets[0].getsockname())
            await bounded(protocol.seen("made"))
            server.close()
            protocol.transport.abort()
            await protocol.seen("lost")
        assert reports == [errno.EMFILE, errno.ENOMEM]

    monkeypatch.setattr(acceptor, "RETRY_DELAY", 0.001)
    monkeypatch.setattr(socket.socket, "_accept", accept_or_fail)
    with asyncio.Runner(loop_factory=lambda: EventLoop(backend)) as runner:
        runner.run(main())
    assert backend.refusals == 1


def test_a_server_can_be_closed_after_its_loop(loop: asyncio.AbstractEventLoop) -> None:
    server = loop.run_until_complete(loop.create_server(asyncio.Protocol, "127.0.0.1", 0))
    (sock,) = server.sockets  # type: ignore[attr-defined]
    loop.close()
    server.close()
    assert sock.fileno() == -1


@pytest.mark.loopcore_only
@needs_312
async def test_wait_closed_does_not_wait_for_a_connection_whose_descriptor_others_have_closed(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Beyond asyncio, where the error of the second close keeps the server from hearing of the end."""
    reports: list[Any] = []
    loop.set_exception_handler(lambda _, context: reports.append(context["exception"].errno))
    protocol = Recorder()
    async with serving(lambda: protocol) as server:
        with await connect(server):
            await protocol.seen("made")
            os.close(protocol.transport.get_extra_info("socket").fileno())
            protocol.transport.abort()
            server.close()
            await asyncio.wait_for(server.wait_closed(), 10)
    assert reports == [errno.EBADF]


@pytest.mark.loopcore_only
async def test_connection_for_whose_socket_there_is_no_memory_is_closed(
    loop: asyncio.AbstractEventLoop, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = socket.socket
    lost: list[int] = []

    class Unmade(socket.socket):
        def __init__(self, *args: Any, **named: Any) -> None:
            if args and named.get("fileno") is not None and not lost:
                lost.append(named["fileno"])
                raise MemoryError
            made.__init__(self, *args, **named)

    reported: list[Any] = []
    loop.set_exception_handler(lambda _, context: reported.append(type(context["exception"])))
    protocol = Recorder()
    server = await loop.create_unix_server(lambda: protocol, str(tmp_path / "socket"))
    monkeypatch.setattr(socket, "socket", Unmade)
    for number in range(2):
        with made(socket.AF_UNIX) as peer:
            peer.setblocking(False)
            await loop.sock_connect(peer, str(tmp_path / "socket"))
            if number == 0:
                assert await loop.sock_recv(peer, 1) == b""
            else:
                await protocol.seen("made")
    monkeypatch.undo()
    assert reported == [MemoryError]
    assert len(lost) == 1
    await protocol.seen("lost")
    server.close()
