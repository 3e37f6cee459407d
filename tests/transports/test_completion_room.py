"""Over a completion port a protocol that was paused hears of the room that a Send has made, once and in its turn."""

import asyncio

import pytest

from loopcore.ports.operations import Receive, Send
from tests.transports.recorder import Recorder, settle
from tests.transports.scripted import ScriptedPort, connection, content, scripted_fixtures

port, loop, run = scripted_fixtures()


@pytest.mark.parametrize("how", ["write", "write_eof"])
async def test_room_made_by_a_send_is_told_in_its_turn_and_not_inside_a_call_of_the_protocol(
    port: ScriptedPort, how: str
) -> None:
    """The same wait brings the end of a Send and data, to which the protocol reacts by writing."""
    protocol = Recorder()
    async with connection(port, protocol) as (transport, _):
        transport.set_write_buffer_limits(high=10)
        transport.write(b"x")
        await settle()
        transport.write(bytes(20))  # behind what is in flight
        assert protocol.kinds() == ["made", "pause"]
        send = port.only(Send)
        port.complete(port.only(Receive), b"data", more=True)
        port.complete(send, 1)
        protocol.react["data"] = transport.write_eof if how == "write_eof" else lambda: transport.write(bytes(20))
        await settle()
        assert protocol.kinds() == ["made", "pause", "data", "resume"]
        assert transport.get_write_buffer_size() == 0


async def test_room_is_told_though_more_is_written_before_the_turn_of_the_send_that_made_it(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (transport, peer):
        transport.set_write_buffer_limits(high=10)
        transport.write(b"x")
        await settle()
        transport.write(bytes(20))
        port.complete(port.only(Send), 1)
        await asyncio.sleep(0)  # what is ready runs before the completions of a tick are dispatched
        transport.write(bytes(20))
        assert len(peer.recv(100)) == 40, "it has left at once, with what was behind the Send"
        transport.write(b"little")
        assert protocol.kinds() == ["made", "pause"]
        await settle()
        send = port.only(Send)
        assert content(send) == b"little"
        port.complete(send, 6)
        await settle()
        assert protocol.kinds() == ["made", "pause", "resume"]
        transport.close()
        await protocol.seen("lost")
