"""Sends that take a part, nothing at all, fail or are interrupted: nothing is lost, sent twice or out of order.

The sockets stand in for the kernel. Drivers that are C call no method of a socket: there these are connections like
others.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.transports.recorder import receive, receive_all, run
from tests.transports.test_stream_answers import Answer, AnswerFromBuffer


class Interrupted(socket.socket):
    """Sends nothing, once, because a signal handler raises."""

    interrupts = True

    def send(self, *args: Any) -> int:
        if self.interrupts:
            self.interrupts = False
            raise KeyboardInterrupt
        return super().send(*args)


@pytest.mark.loopcore_only
def test_an_answer_whose_send_is_interrupted_leaves_in_the_next_run(loop: Any) -> None:
    first, peer = socket.socketpair()
    with peer, Interrupted(first.family, first.type, first.proto, fileno=first.detach()) as sock:
        peer.setblocking(False)
        sock.setblocking(False)
        protocol = Answer(lambda transport, data: transport.write(b"answer"))
        transport, _ = loop.run_until_complete(loop.create_connection(lambda: protocol, sock=sock))
        peer.send(b"x")
        task = loop.create_task(loop.sock_recv(peer, 9))
        with contextlib.suppress(KeyboardInterrupt):  # compiled, no method of the socket is called
            loop.run_until_complete(task)
        assert loop.run_until_complete(asyncio.wait_for(task, 2)) == b"answer"
        transport.close()
        loop.run_until_complete(asyncio.sleep(0))


class Stingy(socket.socket):
    """Takes nothing at first, then a few bytes at a time; over the drivers that are C it is a socket like others."""

    refuses = True

    def send(self, data: Any, *args: Any) -> int:
        if self.refuses:
            self.refuses = False
            raise BlockingIOError
        return super().send(data[:4], *args)


@pytest.mark.loopcore_only
def test_a_large_write_that_is_interrupted_leaves_in_the_next_run(loop: Any) -> None:
    size = 100_000
    with connection(loop, Interrupted, Answer(lambda *_: None)) as (transport, peer):
        with contextlib.suppress(KeyboardInterrupt):  # compiled, no method of the socket is called
            transport.write(bytes(size))
        assert len(run(loop, receive(peer, size))) == size


class Broken(socket.socket):
    """Refuses what is sent, once as a lost connection and then as another error."""

    errors = [ConnectionResetError, BrokenPipeError]

    def send(self, data: Any, *args: Any) -> int:
        raise self.errors.pop(0)


@contextlib.contextmanager
def connection(loop: Any, kind: type[socket.socket], protocol: Any) -> Iterator[tuple[Any, socket.socket]]:
    """A transport over a socket of `kind`, and its peer."""
    first, peer = socket.socketpair()
    with peer, kind(first.family, first.type, first.proto, fileno=first.detach()) as sock:
        peer.setblocking(False)
        sock.setblocking(False)
        transport, _ = loop.run_until_complete(loop.create_connection(lambda: protocol, sock=sock))
        try:
            yield transport, peer
        finally:
            transport.close()
            loop.run_until_complete(asyncio.sleep(0))


@pytest.mark.loopcore_only
@pytest.mark.parametrize("protocol_class", [Answer, AnswerFromBuffer])
@pytest.mark.parametrize("refuses", [True, False])
def test_an_answer_that_the_kernel_takes_in_parts_arrives_whole(loop: Any, protocol_class: Any, refuses: bool) -> None:
    def answer(transport: Any, data: bytes) -> None:
        transport.write(b"an answer")
        loop.call_soon(transport.write, b" and more")

    with connection(loop, Stingy, protocol_class(answer)) as (transport, peer):
        transport.get_extra_info("socket")._sock.refuses = refuses
        peer.send(b"x")
        assert run(loop, receive(peer, 18)) == b"an answer and more"
        assert transport.get_write_buffer_size() == 0
        assert transport.get_extra_info("loopcore.bytes") == (1, 18)


@pytest.mark.loopcore_only
@pytest.mark.parametrize("refuses", [True, False])
def test_a_write_that_the_kernel_takes_in_parts_pauses_and_resumes(loop: Any, refuses: bool) -> None:
    told: list[str] = []
    protocol = Answer(lambda *_: None)
    protocol.pause_writing = lambda: told.append("pause")  # type: ignore[method-assign]
    protocol.resume_writing = lambda: told.append("resume")  # type: ignore[method-assign]
    with connection(loop, Stingy, protocol) as (transport, peer):
        transport.get_extra_info("socket")._sock.refuses = refuses
        transport.set_write_buffer_limits(high=4)
        transport.write(b"0123456789")
        transport.write(b"abc")
        assert run(loop, receive(peer, 13)) == b"0123456789abc"
        run(loop, asyncio.sleep(0))
        assert told in ([], ["pause", "resume"])
        transport.write_eof()
        assert run(loop, receive_all(peer)) == b""


@pytest.mark.loopcore_only
@pytest.mark.parametrize("answers", [True, False])
def test_a_send_that_fails_is_tried_once_and_ends_the_connection(loop: Any, answers: bool) -> None:
    protocol = Answer(lambda transport, _: transport.write(b"answer"))
    lost = loop.create_future()
    protocol.connection_lost = lost.set_result  # type: ignore[method-assign]
    with connection(loop, Broken, protocol) as (transport, peer):
        kind = type(transport.get_extra_info("socket")._sock)
        kind.errors = [ConnectionResetError, BrokenPipeError]
        if answers:
            peer.send(b"x")
        else:
            transport.write(b"a write")
        run(loop, asyncio.sleep(0.01))
        if kind.errors[0] is ConnectionResetError:
            pytest.skip("the driver is C and calls no method of the socket")
        assert type(run(loop, lost)) is ConnectionResetError
        assert kind.errors == [BrokenPipeError]
        assert transport.get_write_buffer_size() == 0
