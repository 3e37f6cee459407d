"""Large messages over a port that polls cheaply: the driver receives for itself while they come."""

import errno
from typing import Any

import pytest

from loopcore.ports.interest import HANGUP, READ
from loopcore.ports.operations import Poll, Receive, Send
from loopcore.ports.readiness import Capability
from loopcore.transports.driver_completion import LARGE, SMALL, SMALL_ONES
from tests.transports.recorder import BufferedRecorder, Recorder, settle, tcp_pair, unix_pair
from tests.transports.scripted import ScriptedPort, connection, running, scripted_fixtures

CHEAP = frozenset({Capability.CHEAP_POLLS})
port, loop, run = scripted_fixtures(CHEAP)
LARGE_ONE = b"L" * LARGE


async def after_a_large_one(port: ScriptedPort) -> Poll:
    """Bring a large message, and return the Poll that follows."""
    port.complete(port.only(Receive), LARGE_ONE, more=True)
    await settle()
    port.end_cancelled()
    await settle()
    assert port.kinds() == ["POLL"]
    poll: Poll = port.only(Poll)
    assert poll.interest == READ
    return poll


@pytest.mark.parametrize("make", [Recorder, lambda: BufferedRecorder(LARGE)], ids=["bytes", "buffers"])
async def test_large_message_makes_the_driver_receive_for_itself(loop: Any, port: ScriptedPort, make: Any) -> None:
    protocol = make()
    async with connection(port, protocol) as (_, peer):
        poll = await after_a_large_one(port)
        peer.send(b"next")
        port.complete(poll, READ)
        await settle()
        assert protocol.received() == LARGE_ONE + b"next"
        assert port.only(Poll) is poll, "it is asked for again"
        assert loop.counters().bytes_received == LARGE + 4


@pytest.mark.parametrize(("size", "capabilities"), [(LARGE, frozenset()), (LARGE - 1, CHEAP)])
def test_port_goes_on_receiving_otherwise(size: int, capabilities: Any) -> None:
    async def main(loop: Any, port: ScriptedPort) -> None:
        async with connection(port, Recorder()):
            port.complete(port.only(Receive), b"x" * size, more=True)
            await settle()
            assert port.cancelled == []
            assert port.kinds() == ["RECEIVE"]

    running(main, capabilities)


@pytest.mark.parametrize(("size", "kind"), [(SMALL - 1, "RECEIVE"), (SMALL, "POLL")])
async def test_port_goes_on_receiving_for_a_protocol_with_small_buffers(
    port: ScriptedPort, size: int, kind: str
) -> None:
    protocol = BufferedRecorder(size)
    async with connection(port, protocol):
        port.complete(port.only(Receive), LARGE_ONE, more=True)
        await settle()
        port.end_cancelled()
        await settle()
        assert port.kinds() == [kind]
        assert protocol.received() == LARGE_ONE


async def test_what_the_receive_still_brings_comes_first(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (_, peer):
        receive = port.only(Receive)
        port.complete(receive, LARGE_ONE, more=True)
        await settle()
        port.complete(receive, b" late", more=True)
        port.complete(receive, b" last")  # the cancellation came too late
        await settle()
        assert port.kinds() == ["POLL"]
        peer.send(b" next")
        port.complete(port.only(Poll), READ)
        await settle()
        assert protocol.received() == LARGE_ONE + b" late last next"


async def test_small_messages_leave_it_to_the_port_again(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (_, peer):
        poll = await after_a_large_one(port)
        sizes = [1] * (SMALL_ONES - 1) + [SMALL] + [1] * SMALL_ONES
        for size in sizes:
            assert port.kinds() == ["POLL"]
            peer.send(b"s" * size)
            port.complete(poll, READ)
            await settle()
        port.complete(port.only(Receive), b"by the port", more=True)
        await settle()
        assert protocol.received() == LARGE_ONE + b"s" * sum(sizes) + b"by the port"


async def test_poll_that_was_for_nothing_is_asked_for_again(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol):
        port.complete(await after_a_large_one(port), READ)
        await settle()
        assert port.kinds() == ["POLL"]
        assert protocol.received() == LARGE_ONE


async def test_port_receives_again_also_if_the_last_small_one_pauses_reading(port: ScriptedPort) -> None:
    class Pausing(Recorder):
        left = SMALL_ONES

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if data == b"small":
                self.left -= 1
                if self.left == 0:
                    self.transport.pause_reading()

    async with connection(port, Pausing()) as (transport, peer):
        await after_a_large_one(port)
        for _ in range(SMALL_ONES + 1):
            transport.resume_reading()
            await settle()
            peer.send(b"small")
            port.complete(port.only(Poll), READ)
            await settle()
        assert port.kinds() == ["RECEIVE"]


async def test_pause_leaves_what_a_poll_has_reported_to_the_kernel(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (transport, peer):
        poll = await after_a_large_one(port)
        peer.send(b"next")
        transport.pause_reading()
        port.complete(poll, READ)
        await settle()
        assert protocol.received() == LARGE_ONE
        transport.resume_reading()
        await settle()
        assert protocol.received() == LARGE_ONE + b"next"


@pytest.mark.parametrize("make", [Recorder, lambda: BufferedRecorder(LARGE)], ids=["bytes", "buffers"])
async def test_end_of_the_stream_is_told_once(port: ScriptedPort, make: Any) -> None:
    protocol = make()
    async with connection(port, protocol) as (_, peer):
        poll = await after_a_large_one(port)
        peer.close()
        port.complete(poll, READ)
        await settle()
        assert protocol.kinds()[-2:] == ["eof", "lost"]
        assert port.in_flight == []


async def test_error_of_a_poll_ends_the_connection(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol):
        port.complete(await after_a_large_one(port), OSError(errno.EBADF, "bad"))
        await settle()
        assert isinstance(protocol.lost_with(), OSError)


def test_much_is_sent_at_once_and_little_by_the_port() -> None:
    async def main(loop: Any, port: ScriptedPort) -> None:
        async with connection(port, Recorder()) as (transport, peer):
            transport.write(b"m" * SMALL)
            await settle()
            assert port.kinds() == ["RECEIVE"]
            assert len(peer.recv(2 * SMALL)) == SMALL
            transport.write(b"little")
            await settle()
            port.complete(port.only(Send), 6)
            await settle()
            assert transport.get_write_buffer_size() == 0

    running(main)


async def test_little_is_sent_at_once_where_polls_are_cheap(port: ScriptedPort) -> None:
    async with connection(port, Recorder()) as (transport, peer):
        transport.write(b"little")
        await settle()
        assert port.kinds() == ["RECEIVE"]
        assert peer.recv(100) == b"little"
        assert transport.get_write_buffer_size() == 0


async def test_poll_for_edges_serves_a_tcp_connection_until_its_end(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol, tcp_pair) as (_, peer):
        poll = await after_a_large_one(port)
        assert poll.edges
        for data in (b"one", b"two"):
            peer.send(data)
            port.complete(poll, READ, more=True)
            await protocol.until(lambda: protocol.received().endswith(data))  # noqa: B023
        peer.send(b"last")
        peer.close()
        port.complete(poll, READ | HANGUP, more=True)
        await protocol.seen("lost")
        assert protocol.received() == LARGE_ONE + b"onetwolast"
        assert "eof" in protocol.kinds()


async def test_what_one_receive_left_is_received_though_no_edge_tells_of_it(loop: Any, port: ScriptedPort) -> None:
    protocol = Recorder()
    loop.receive_limit = 1000
    async with connection(port, protocol, tcp_pair) as (_, peer):
        poll = await after_a_large_one(port)
        peer.send(b"x" * 3500)
        port.complete(poll, READ, more=True)
        await protocol.until(lambda: len(protocol.received()) == LARGE + 3500)
        assert port.only(Poll) is poll


async def test_what_one_receive_left_stays_in_the_kernel_while_reading_is_paused(loop: Any, port: ScriptedPort) -> None:
    class Pausing(Recorder):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if len(data) == 1000:
                self.transport.pause_reading()

    protocol = Pausing()
    loop.receive_limit = 1000
    async with connection(port, protocol, tcp_pair) as (transport, peer):
        poll = await after_a_large_one(port)
        peer.send(b"x" * 1500)
        port.complete(poll, READ, more=True)
        await protocol.until(lambda: len(protocol.received()) > LARGE)
        await settle()
        assert len(protocol.received()) == LARGE + 1000
        assert port.cancelled == [poll]
        transport.resume_reading()
        port.end_cancelled()
        await settle()
        port.complete(poll, READ, more=True)  # asked for again, it tells of what is there
        await protocol.until(lambda: len(protocol.received()) == LARGE + 1500)


@pytest.mark.parametrize("make_pair", [unix_pair, tcp_pair], ids=["unix", "tcp"])
async def test_sockets_are_polled_each_time_for_protocols_whose_buffers_may_be_small(
    port: ScriptedPort, make_pair: Any
) -> None:
    async with connection(port, BufferedRecorder(LARGE), make_pair):
        assert not (await after_a_large_one(port)).edges
