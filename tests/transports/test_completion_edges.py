"""A Poll for edges says each thing once: nothing that the driver does may forget what it has said."""

import asyncio
import socket
from random import randbytes
from typing import Any

import pytest

from loopcore import hookimpl
from loopcore.ports.interest import READ
from loopcore.ports.operations import Receive
from loopcore.transports.driver_completion import SMALL_ONES
from tests.transports.recorder import BufferedRecorder, Recorder, settle, tcp_pair, unix_pair
from tests.transports.scripted import connection, scripted_fixtures, scripted_loop
from tests.transports.test_completion_large import CHEAP, LARGE_ONE, after_a_large_one

port, loop, run = scripted_fixtures(CHEAP)


async def test_rest_of_a_small_buffer_goes_to_the_protocol_that_takes_bytes_from_then_on(port: Any) -> None:
    bytes_again = Recorder()

    class Once(BufferedRecorder):
        def buffer_updated(self, nbytes: int) -> None:
            super().buffer_updated(nbytes)
            transport.set_protocol(bytes_again)

    async with connection(port, Recorder(), tcp_pair) as (transport, peer):
        poll = await after_a_large_one(port)
        assert poll.edges
        transport.set_protocol(Once(100))
        peer.send(b"x" * 150)
        port.complete(poll, READ, more=True)
        await settle()
        assert bytes_again.received() == b"x" * 50


async def test_limit_that_is_raised_by_what_came_in_was_still_the_limit_of_that(loop: Any, port: Any) -> None:
    class Raising(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if len(data) == 1000:
                asyncio.get_running_loop().receive_limit = 10_000  # type: ignore[attr-defined]

    protocol = Raising()
    loop.receive_limit = 1000
    async with connection(port, protocol, tcp_pair) as (_, peer):
        poll = await after_a_large_one(port)
        peer.send(b"x" * 1500)
        port.complete(poll, READ, more=True)
        await settle()
        assert len(protocol.received()) == len(LARGE_ONE) + 1500


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_was_left_comes_though_the_protocol_has_ended_the_tick(kind: type[BaseException]) -> None:
    class Leaving(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if len(data) == 1000:
                loop.receive_limit = 0
                raise kind

    async def opened() -> Any:
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, near)
        await settle()
        return transport, await after_a_large_one(port)

    loop, port = scripted_loop(CHEAP)
    protocol = Leaving()
    near, far = tcp_pair()
    with far:
        try:
            transport, poll = loop.run_until_complete(opened())
            loop.receive_limit = 1000
            far.send(b"x" * 1500)
            port.complete(poll, READ, more=True)
            with pytest.raises(kind):
                loop.run_until_complete(settle())
            loop.run_until_complete(settle())
            assert protocol.received() == LARGE_ONE + b"x" * 1500
        finally:
            transport.abort()
            port.end_cancelled()
            loop.run_until_complete(settle())
            loop.close()


async def test_receive_of_the_port_is_not_overtaken_by_what_a_policy_has_put_off(loop: Any, port: Any) -> None:
    class Policy:
        callbacks: int | None = None
        seconds = None

        @hookimpl
        def loopcore_make_tick_budget(self, loop: Any) -> "Policy":
            return self

    def go_on() -> None:
        if port.kinds() == ["RECEIVE"]:
            if policy.callbacks == 1:
                port.complete(port.only(Receive), b"by the port", more=True)
            policy.callbacks = None
        else:
            port.end_cancelled()

    protocol, policy = Recorder(), Policy()
    loop.probes.register(policy)
    loop.receive_limit = 1000
    async with connection(port, protocol, tcp_pair) as (_, peer):
        poll = await after_a_large_one(port)
        peer.send(b"x" * 1000 * SMALL_ONES + b" later")
        for _ in range(SMALL_ONES):
            port.complete(poll, READ, more=True)
        for _ in range(10):
            loop.call_soon(go_on)  # the driver's turn, to receive what is left, is behind these
        policy.callbacks = 1
        await protocol.until(lambda: protocol.received().endswith(b"by the port"))
        assert protocol.received() == LARGE_ONE + b"x" * 1000 * SMALL_ONES + b"by the port"


async def test_streams_of_the_internet_that_are_not_tcp_are_polled_each_time(port: Any) -> None:
    try:
        listener = socket.socket(proto=socket.IPPROTO_MPTCP)
    except (AttributeError, OSError) as exc:
        pytest.skip(f"no other protocol here: {exc}")
    with listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        far = socket.create_connection(listener.getsockname())
        near, _ = listener.accept()
    near.setblocking(False)
    async with connection(port, Recorder(), lambda: (near, far)):
        assert not (await after_a_large_one(port)).edges


async def test_unix_sockets_are_polled_each_time_since_a_receive_may_be_cut(port: Any) -> None:
    async with connection(port, Recorder(), unix_pair):
        assert not (await after_a_large_one(port)).edges


async def test_messages_that_are_longer_than_the_ones_before_come_whole(port: Any) -> None:
    protocol, sent = Recorder(), LARGE_ONE
    async with connection(port, protocol, tcp_pair) as (_, peer):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a delayed one would come too late
        poll = await after_a_large_one(port)
        for size in (9000, 9000, 9000, 9001, 9001, 9001, 8999, 9000, 9000, 9000, 40_000, 9000, 9000, 9000, 9100):
            sent += randbytes(size)
            peer.send(sent[-size:])
            port.complete(poll, READ, more=True)
            for _ in range(3):
                await settle()
            assert protocol.received() == sent
