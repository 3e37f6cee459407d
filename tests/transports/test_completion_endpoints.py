"""Servers, datagrams, pipes and forks over a completion port that ends operations as a test wants."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from loopcore.ports.operations import Accept, Close, Connect, Poll, Read, ReceiveFrom, Write
from loopcore.services.forking import AtForkState
from loopcore.transports import acceptor, driver_pipe
from tests.transports.recorder import Handled, Recorder, settle
from tests.transports.scripted import ScriptedPort, scripted_fixtures, scripted_loop

port, loop, run = scripted_fixtures()

# Servers


def accepted(port: ScriptedPort, more: bool = True) -> tuple[int, socket.socket]:
    """Let the one Accept bring a connection; return its descriptor and the peer."""
    near, far = socket.socketpair()
    fd = near.detach()
    port.complete(port.only(Accept), fd, more)
    return fd, far


@contextlib.asynccontextmanager
async def server(loop: Any, made: list[Any], port: ScriptedPort) -> Any:
    def make() -> Recorder:
        made.append(Recorder())
        return made[-1]

    listening = await loop.create_server(make, "127.0.0.1", 0)
    yield listening
    listening.close()
    for protocol in made:
        protocol.transport.abort()
    await settle()
    port.end_cancelled()
    await settle()
    assert port.in_flight == []


async def test_one_accept_brings_many_connections(loop: Any, port: ScriptedPort) -> None:
    made: list[Any] = []
    async with server(loop, made, port):
        peers = [accepted(port)[1] for _ in range(3)]
        await settle()
        assert [protocol.kinds() for protocol in made] == [["made"]] * 3
        assert loop.counters().connections_accepted == 3
        for peer in peers:
            peer.close()


@pytest.mark.parametrize("last", ["connection", ConnectionAbortedError(errno.ECONNABORTED, "aborted")])
async def test_accept_that_has_ended_begins_again(loop: Any, port: ScriptedPort, last: Any) -> None:
    made: list[Any] = []
    async with server(loop, made, port):
        accept = port.only(Accept)
        if last == "connection":
            accepted(port, more=False)[1].close()
        else:
            port.complete(accept, last)
        await settle()
        assert port.only(Accept) is accept


async def test_connection_that_was_accepted_too_late_is_closed(loop: Any, port: ScriptedPort) -> None:
    made: list[Any] = []
    async with server(loop, made, port) as listening:
        fd, peer = accepted(port)
        listening.close()
        await settle()
        with peer, pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)
        assert made == []


def test_connection_in_the_hands_of_a_loop_that_closes_is_closed() -> None:
    loop, port = scripted_loop()
    listening = loop.run_until_complete(loop.create_server(Recorder, "127.0.0.1", 0))
    fd, peer = accepted(port)
    loop._completions.submitted = True
    loop.close()
    listening.close()
    with peer, pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


async def test_accepting_rests_while_there_are_no_descriptors(
    loop: Any, port: ScriptedPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "RETRY_DELAY", 0.0)
    reports = Handled(loop)
    made: list[Any] = []
    async with server(loop, made, port):
        port.complete(port.only(Accept), OSError(errno.EMFILE, "too many"))
        await settle()
        assert reports.messages() == ["socket.accept() out of system resource"]
        accepted(port)[1].close()
        await settle()
        assert len(made) == 1


@pytest.mark.parametrize("number", [errno.EPROTO, errno.ECONNRESET])
async def test_an_error_of_one_connection_does_not_keep_the_next_one_waiting(
    loop: Any, port: ScriptedPort, number: int
) -> None:
    reports = Handled(loop)
    made: list[Any] = []
    async with server(loop, made, port):
        port.complete(port.only(Accept), OSError(number, os.strerror(number)))
        await settle()
        accepted(port)[1].close()
        await settle()
        assert (len(made), reports.messages()) == (1, [])


# Connecting


async def test_connect_that_could_not_begin_is_called_off(loop: Any, port: ScriptedPort) -> None:
    refusal = OSError(errno.ENOMEM, "no memory")

    def refuse(timeout: float | None) -> Any:
        del port.wait
        raise refusal

    with socket.socket() as sock:
        sock.setblocking(False)
        port.wait = refuse  # type: ignore[method-assign]
        with pytest.raises(OSError, match="no memory") as caught:
            await loop.sock_connect(sock, ("127.0.0.1", 1))
        assert caught.value is refusal
        assert port.cancelled == [port.only(Connect)]  # before its descriptor may be that of another socket
    port.end_cancelled()
    await settle()


# Datagrams


class Datagrams(Recorder, asyncio.DatagramProtocol):
    def datagram_received(self, data: bytes, address: Any) -> None:
        self.note("datagram", data, address)

    def error_received(self, exc: Exception) -> None:
        self.note("error", exc)


async def test_datagrams_come_in_order_held_over_a_pause_and_errors_end_nothing(loop: Any, port: ScriptedPort) -> None:
    protocol = Datagrams()
    transport, _ = await loop.create_datagram_endpoint(lambda: protocol, local_addr=("127.0.0.1", 0))
    await settle()
    receive = port.only(ReceiveFrom)
    peer = ("127.0.0.1", 9)
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    port.complete(receive, (b"one", peer), more=True)
    port.complete(receive, refused)
    await settle()
    assert protocol.events[1:] == [("datagram", b"one", peer), ("error", refused)]
    transport.pause_reading()
    port.complete(port.only(ReceiveFrom), (b"", peer), more=True)
    port.end_cancelled()
    await settle()
    assert len(protocol.events) == 3
    transport.resume_reading()
    await settle()
    assert protocol.events[3] == ("datagram", b"", peer)
    port.complete(port.only(ReceiveFrom), OSError(errno.EBADF, "closed by somebody else"))
    await settle()
    assert protocol.kinds()[-1] == "lost"
    assert port.in_flight == []


# Pipes


@pytest.fixture
def pipe() -> Iterator[tuple[Any, Any]]:
    reading, writing = os.pipe()
    with open(reading, "rb", 0) as near, open(writing, "wb", 0) as far:
        yield near, far


async def test_pipe_is_read_to_its_end_and_over_a_pause(loop: Any, port: ScriptedPort, pipe: Any) -> None:
    protocol = Recorder()
    transport, _ = await loop.connect_read_pipe(lambda: protocol, pipe[0])
    await settle()
    port.complete(port.only(Read), b"one ")
    await settle()
    transport.pause_reading()
    port.complete(port.only(Read), b"two ")
    await settle()
    assert protocol.received() == b"one "
    assert port.in_flight == []
    transport.resume_reading()
    await settle()
    port.complete(port.only(Read), b"")
    await settle()
    assert protocol.received() == b"one two "
    assert protocol.kinds()[-2:] == ["eof", "lost"]
    assert pipe[0].closed


@pytest.mark.parametrize("polls", [True, False], ids=["posix", "windows"])
async def test_pipe_is_written_by_one_write_at_a_time(
    loop: Any, port: ScriptedPort, monkeypatch: pytest.MonkeyPatch, pipe: Any, polls: bool
) -> None:
    monkeypatch.setattr(driver_pipe, "HAS_DESCRIPTORS", polls)
    protocol = Recorder()
    transport, _ = await loop.connect_write_pipe(lambda: protocol, pipe[1])
    await settle()
    watching = port.only(Poll if polls else Read)
    if polls:
        transport.write(bytes(65536))  # all that a pipe holds, so that what follows is up to the port
    transport.write(b"one ")
    transport.write(b"two")
    write = port.only(Write)
    assert [bytes(buffer) for buffer in write.buffers] == [b"one "]
    port.complete(write, 2)
    await settle()
    rest = port.only(Write)
    assert b"".join(rest.buffers)[rest.head :] == b"e two"
    transport.write_eof()
    port.complete(write, 5)
    await settle()
    assert protocol.kinds()[-1] == "lost"
    assert pipe[1].closed
    assert watching in port.cancelled
    port.end_cancelled()
    await settle()
    assert port.in_flight == []


async def test_reader_that_leaves_is_noticed_by_a_read_where_pipes_cannot_be_polled(
    loop: Any, port: ScriptedPort, monkeypatch: pytest.MonkeyPatch, pipe: Any
) -> None:
    monkeypatch.setattr(driver_pipe, "HAS_DESCRIPTORS", False)
    protocol = Recorder()
    transport, _ = await loop.connect_write_pipe(lambda: protocol, pipe[1])
    await settle()
    transport.write(b"never read")
    write = port.only(Write)
    port.complete(port.only(Read), BrokenPipeError(errno.EPIPE, "gone"))
    await settle()
    assert isinstance(protocol.lost_with(), BrokenPipeError)
    assert write in port.cancelled
    port.complete(write, 10)
    await settle()
    assert loop.counters().bytes_sent == 10
    assert protocol.kinds() == ["made", "lost"]


# Forks


def test_child_submits_again_what_was_in_flight_and_ends_what_it_cancels_first() -> None:
    """As in the child of a fork, where the port is made anew when the loop waits."""
    loop, port = scripted_loop()
    near, far = socket.socketpair()
    with near, far:
        heard: list[int] = []
        loop.add_reader(near, heard.append, 1)
        loop.add_reader(far, heard.append, 2)
        loop.run_until_complete(settle())
        made: list[ScriptedPort] = []

        def make() -> ScriptedPort:
            made.append(ScriptedPort())
            made[-1].is_woken = True
            return made[-1]

        state = AtForkState(loop, make)
        state.renew()
        assert port.is_closed
        loop.remove_reader(far)
        assert made == []
        loop.run_until_complete(settle())
        (again,) = made
        assert [operation.fd for operation in again.in_flight] == [near.fileno()]
        again.complete(again.only(Poll), 1)
        loop.run_until_complete(settle())
        assert heard == [1]
        loop.close()
        assert again.is_closed


def test_loop_that_closes_closes_what_no_close_has_closed_and_nothing_twice() -> None:
    loop, port = scripted_loop()
    done, undone = os.pipe()
    loop._completions.submit(Close(done))
    loop._completions.submit(Close(undone))
    os.close(done)
    port.complete(port.in_flight[0], None)
    loop._completions.begin()
    reused = os.dup2(0, done)
    loop.close()
    os.close(reused)  # still ours
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(undone)
