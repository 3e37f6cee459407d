"""What the stream driver over a completion port receives, from a port that ends operations as a test wants."""

import errno
from typing import Any

import pytest

from loopcore.ports.operations import Receive
from tests.transports.recorder import BufferedRecorder, Recorder, settle, unix_pair
from tests.transports.scripted import Piece, ScriptedPort, connection, scripted_fixtures, scripted_loop

port, loop, run = scripted_fixtures()

CANCELLED = OSError(errno.ECANCELED, "cancelled")


async def test_results_of_one_receive_reach_the_protocol_in_order(loop: Any, port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol):
        receive = port.only(Receive)
        port.complete(receive, b"one ", more=True)
        port.complete(receive, b"two", more=True)
        await settle()
        assert protocol.events == [("made",), ("data", b"one "), ("data", b"two")]
        assert loop.counters().bytes_received == 7


@pytest.mark.parametrize("last", [b"last", BlockingIOError(errno.EAGAIN, "again")])
async def test_receive_that_ends_without_the_end_of_the_stream_begins_again(port: ScriptedPort, last: Any) -> None:
    protocol = Recorder()
    async with connection(port, protocol):
        receive = port.only(Receive)
        port.complete(receive, last)
        await settle()
        assert port.only(Receive) is receive
        port.complete(receive, b" more", more=True)
        await settle()
        assert protocol.received() in (b"last more", b" more")
        assert protocol.kinds()[-1] == "data"


async def test_end_of_the_stream_is_told_once_and_nothing_more_is_asked(port: ScriptedPort) -> None:
    protocol = Recorder()
    protocol.keep_open = True
    async with connection(port, protocol):
        port.complete(port.only(Receive), b"")
        await settle()
        assert protocol.kinds() == ["made", "eof"]
        assert port.in_flight == []


async def test_error_of_a_receive_ends_the_connection(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol):
        port.complete(port.only(Receive), ConnectionResetError(errno.ECONNRESET, "reset"))
        await settle()
        assert isinstance(protocol.lost_with(), ConnectionResetError)


async def test_what_comes_after_a_pause_is_held_and_comes_before_anything_newer(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (transport, _):
        receive = port.only(Receive)
        transport.pause_reading()
        assert port.cancelled == [receive]
        port.complete(receive, b"late ", more=True)
        port.complete(receive, b"later ")  # the cancellation came too late
        await settle()
        assert protocol.kinds() == ["made"]
        assert port.in_flight == []
        transport.resume_reading()
        assert protocol.kinds() == ["made"], "nothing is called from inside resume_reading"
        await settle()
        assert protocol.received() == b"late later "
        port.complete(port.only(Receive), b"new", more=True)
        await settle()
        assert protocol.received() == b"late later new"


async def test_protocol_that_pauses_with_each_piece_makes_the_port_read_no_further(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (transport, _):
        protocol.react["data"] = transport.pause_reading
        receive = port.only(Receive)
        for piece in (b"a", b"b", b"c"):
            port.complete(receive, piece, more=True)
        port.complete(receive, CANCELLED)
        await settle()
        assert protocol.received() == b"a"
        for received in (b"ab", b"abc"):
            assert port.in_flight == []
            transport.resume_reading()
            await settle()
            assert protocol.received() == received
        transport.resume_reading()
        assert port.only(Receive) is receive


async def test_resuming_before_the_cancelled_receive_has_ended_loses_nothing(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (transport, _):
        receive = port.only(Receive)
        transport.pause_reading()
        transport.resume_reading()
        port.complete(receive, b"late ", more=True)
        port.end_cancelled()
        await settle()
        port.complete(port.only(Receive), b"new", more=True)
        await settle()
        assert protocol.received() == b"late new"
        transport.pause_reading()
        assert port.cancelled == [receive], "it can be called off again"


@pytest.mark.parametrize(("result", "told"), [(b"", "eof"), (ConnectionResetError(errno.ECONNRESET, "reset"), "lost")])
async def test_end_that_comes_after_a_pause_is_told_when_reading_resumes(
    port: ScriptedPort, result: Any, told: str
) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (transport, _):
        transport.pause_reading()
        port.complete(port.only(Receive), result)
        await settle()
        assert protocol.kinds() == ["made"]
        transport.resume_reading()
        await settle()
        assert protocol.kinds()[1] == told


@pytest.mark.parametrize("make", [Recorder, BufferedRecorder])
async def test_what_is_held_goes_to_the_new_protocol(port: ScriptedPort, make: Any) -> None:
    old, new = Recorder(), make()
    async with connection(port, old) as (transport, _):
        transport.pause_reading()
        port.complete(port.only(Receive), b"hello", more=True)
        await settle()
        transport.set_protocol(new)
        port.end_cancelled()
        transport.resume_reading()
        await settle()
        assert (old.received(), new.received()) == (b"", b"hello")


async def test_what_comes_after_closing_is_dropped_and_lent_memory_given_back(port: ScriptedPort) -> None:
    protocol = BufferedRecorder()
    piece, late = Piece(b"dropped"), Piece(b"dropped, too")
    async with connection(port, protocol) as (transport, peer):
        receive = port.only(Receive)
        transport.close()
        port.complete(receive, piece, more=True)
        await settle()
        assert protocol.kinds() == ["made", "lost"]
        assert peer.recv(1) == b"", "the socket is closed, whatever the port has to tell"
        port.complete(receive, late, more=True)
        port.complete(receive, ConnectionResetError(errno.ECONNRESET, "reset"))
        await settle()
        assert protocol.kinds() == ["made", "lost"]
        assert (piece.returns, late.returns) == (1, 1)


# Lent memory


async def test_lent_memory_is_copied_in_rounds_and_given_back_once(port: ScriptedPort) -> None:
    protocol = BufferedRecorder(4)
    async with connection(port, protocol):
        receive = port.only(Receive)
        assert receive.lend
        piece = Piece(b"0123456789")
        port.complete(receive, piece, more=True)
        await settle()
        assert [event[1] for event in protocol.events if event[0] == "data"] == [b"0123", b"4567", b"89"]
        assert piece.returns == 1


async def test_pause_between_two_rounds_keeps_the_rest(port: ScriptedPort) -> None:
    protocol = BufferedRecorder(4)
    async with connection(port, protocol) as (transport, _):
        protocol.react["data"] = transport.pause_reading
        piece = Piece(b"0123456789")
        port.complete(port.only(Receive), piece, more=True)
        await settle()
        assert (protocol.received(), piece.returns) == (b"0123", 1)
        protocol.react.clear()
        port.end_cancelled()
        transport.resume_reading()
        await settle()
        assert protocol.received() == b"0123456789"


async def test_protocol_changed_between_two_rounds_has_its_successor_told_the_rest(port: ScriptedPort) -> None:
    first, second = BufferedRecorder(4), Recorder()
    async with connection(port, first) as (transport, _):
        first.react["data"] = lambda: transport.set_protocol(second)
        port.complete(port.only(Receive), Piece(b"0123456789"), more=True)
        await settle()
        assert (first.received(), second.received()) == (b"0123", b"456789")


async def test_buffer_that_cannot_be_written_ends_the_connection(loop: Any, port: ScriptedPort) -> None:
    reports: list[Any] = []
    loop.set_exception_handler(lambda _, context: reports.append(context))
    protocol = BufferedRecorder()
    protocol.buffer = b"read only"
    async with connection(port, protocol):
        piece = Piece(b"data")
        port.complete(port.only(Receive), piece, more=True)
        await settle()
        assert isinstance(protocol.lost_with(), (TypeError, BufferError))
        assert piece.returns == 1
        assert len(reports) == 1


# A tick that does not come to its end


def test_what_a_wait_has_brought_outlives_a_callback_that_ends_the_run() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    protocol = Recorder()
    near, far = unix_pair()
    loop, port = scripted_loop()
    with far:
        transport, _ = loop.run_until_complete(loop.connect_accepted_socket(lambda: protocol, near))
        loop.run_until_complete(settle())
        port.complete(port.only(Receive), b"brought by the wait", more=True)
        loop.call_soon(interrupt)
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        loop.run_until_complete(settle())
        assert protocol.received() == b"brought by the wait"
        transport.abort()
        loop.run_until_complete(settle())
        loop.close()


async def test_what_a_wait_has_brought_outlives_a_callback_that_ticks_the_loop(loop: Any, port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol):
        port.complete(port.only(Receive), b"first ", more=True)
        loop.call_soon(lambda: (port.complete(port.only(Receive), b"second", more=True), loop.tick()))
        await settle()
        assert protocol.received() == b"first second"
