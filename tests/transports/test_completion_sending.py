"""What the stream driver over a completion port sends, by a port that ends operations as a test wants."""

import asyncio
import errno
import socket
from typing import Any

import pytest

from loopcore.ports.operations import Receive, Send
from loopcore.transports.driver_completion import CompletionDriver
from tests.transports.recorder import Handled, Recorder, settle, tcp_pair, unix_pair
from tests.transports.scripted import ScriptedPort, connection, content, scripted_fixtures, scripted_loop

port, loop, run = scripted_fixtures()

CANCELLED = OSError(errno.ECANCELED, "cancelled")


async def test_writes_of_a_tick_are_one_send(loop: Any, port: ScriptedPort) -> None:
    async with connection(port, Recorder()) as (transport, _):
        transport.write(b"one ")
        transport.writelines([b"two ", b"three"])
        assert transport.get_write_buffer_size() == 13
        await settle()
        send = port.only(Send)
        assert content(send) == b"one two three"
        assert transport.get_write_buffer_size() == 13
        port.complete(send, 13)
        await settle()
        assert transport.get_write_buffer_size() == 0
        assert loop.counters().bytes_sent == 13


async def test_rest_of_a_short_send_goes_before_what_was_written_meanwhile(loop: Any, port: ScriptedPort) -> None:
    async with connection(port, Recorder()) as (transport, _):
        transport.writelines([b"abc", b"def"])
        await settle()
        transport.write(b"ghi")
        await settle()
        send = port.only(Send)
        assert content(send) == b"abcdef", "one send at a time"
        port.complete(send, 4)
        await settle()
        assert content(port.only(Send)) == b"efghi"
        port.complete(send, 1)
        await settle()
        assert content(port.only(Send)) == b"fghi"
        port.complete(send, 4)
        await settle()
        assert (transport.get_write_buffer_size(), loop.counters().bytes_sent) == (0, 9)


async def test_more_buffers_than_one_call_takes_leave_in_turn(port: ScriptedPort) -> None:
    async with connection(port, Recorder()) as (transport, _):
        transport.writelines([b"%02d" % (number % 100) for number in range(3000)])
        await settle()
        sent = b""
        while transport.get_write_buffer_size():
            send = port.only(Send)
            assert len(send.buffers) <= 1024
            sent += content(send)
            port.complete(send, len(content(send)))
            await settle()
        assert sent == b"".join(b"%02d" % (number % 100) for number in range(3000))


async def test_success_is_quiet_until_somebody_waits_for_it(port: ScriptedPort) -> None:
    async with connection(port, Recorder()) as (transport, _):
        transport.write(b"first")
        await settle()
        send = port.only(Send)
        assert send.quiet
        transport.write(b"behind it")
        assert not send.quiet
        port.complete(send, 5)
        await settle()
        assert port.only(Send).quiet
        transport.close()
        assert not send.quiet
        assert transport.is_closing()
        port.complete(send, 9)
        await settle()
        assert transport._sock is None


async def test_what_the_kernel_has_no_room_for_is_a_send_that_is_waited_for(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol, tcp_pair) as (transport, _):
        for sock in (transport.get_extra_info("socket"),):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16384)
        while "pause" not in protocol.kinds():
            transport.write(bytes(60_000))
        unsent = transport.get_write_buffer_size()
        send = port.only(Send)
        assert not send.quiet
        assert len(content(send)) == min(unsent, 256 * 1024)
        while "resume" not in protocol.kinds():
            port.complete(send, 10_000 if len(content(send)) > 10_000 else len(content(send)))
            await settle()
        assert transport.get_write_buffer_size() <= 16384


async def test_write_and_close_in_the_tick_in_which_a_send_came_back(loop: Any, port: ScriptedPort) -> None:
    """What is ready runs before the completions of a tick are dispatched."""
    protocol = Recorder()
    async with connection(port, protocol) as (transport, peer):
        transport.write(b"by the port")
        await settle()
        port.complete(port.only(Send), 11)
        await asyncio.sleep(0)
        transport.write(b"at once")
        transport.abort()
        assert peer.recv(100) == b"at once"
        await settle()
        assert protocol.lost_with() is None
        assert loop.counters().bytes_sent == 18


async def test_short_send_that_came_back_in_this_tick_is_completed_by_a_flush(loop: Any, port: ScriptedPort) -> None:
    async with connection(port, Recorder()) as (transport, peer):
        transport.write(b"in two parts")
        await settle()
        port.complete(port.only(Send), 3)
        await asyncio.sleep(0)
        transport.write_eof()
        assert peer.recv(100) == b"two parts"
        assert peer.recv(100) == b""
        await settle()
        assert loop.counters().bytes_sent == 12


async def test_error_of_a_send_ends_the_connection(port: ScriptedPort) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (transport, _):
        transport.write(b"x")
        await settle()
        transport.write(b"y")
        port.complete(port.only(Send), BrokenPipeError(errno.EPIPE, "gone"))
        await settle()
        assert isinstance(protocol.lost_with(), BrokenPipeError)
        assert transport.get_write_buffer_size() == 0


@pytest.mark.parametrize("result", [5, CANCELLED, BrokenPipeError(errno.EPIPE, "gone")])
async def test_abort_calls_off_a_send_and_hears_of_it_no_more(loop: Any, port: ScriptedPort, result: Any) -> None:
    protocol = Recorder()
    async with connection(port, protocol) as (transport, _):
        transport.write(b"first")
        await settle()
        send = port.only(Send)
        transport.abort()
        assert send in port.cancelled
        assert transport.get_write_buffer_size() == 0
        await settle()
        assert protocol.lost_with() is None
        port.complete(send, result)
        await settle()
        assert protocol.kinds() == ["made", "lost"]
        assert loop.counters().bytes_sent == (5 if result == 5 else 0)


async def test_abort_has_the_port_begin_first_what_asyncio_would_have_sent(port: ScriptedPort) -> None:
    async with connection(port, Recorder()) as (transport, _):
        transport.pause_reading()  # so that abort() has nothing but the Send to call off
        await settle()
        begun: list[int] = []
        cancel = port.cancel

        def note(operation: Any) -> None:
            begun.append(port.waits)
            cancel(operation)

        port.cancel = note  # type: ignore[method-assign]
        transport.write(b"good-bye")
        transport._driver.run_flush()  # as when others have written much
        waits = port.waits
        transport.abort()
        assert begun == [waits + 1]
        await settle()


async def test_abort_calls_off_a_send_that_could_not_begin_and_ends_the_connection(
    loop: Any, port: ScriptedPort
) -> None:
    reports = Handled(loop)
    refusal = OSError(errno.ENOMEM, "no memory")

    def refuse(timeout: float | None) -> Any:
        del port.wait
        raise refusal

    protocol = Recorder()
    async with connection(port, protocol) as (transport, _):
        transport.write(b"good-bye")
        transport._driver.run_flush()
        port.wait = refuse  # type: ignore[method-assign]
        transport.abort()
        assert port.only(Send) in port.cancelled
        await settle()
        assert protocol.kinds() == ["made", "lost"]
        assert [context["exception"] for context in reports.contexts] == [refusal]


def test_what_was_written_in_the_last_tick_is_begun_before_the_run_ends() -> None:
    async def main() -> Any:
        near, far = unix_pair()
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(Recorder, near)
        await settle()
        transport.write(b"last words")
        return transport, far

    loop, port = scripted_loop()
    waits: list[int] = []
    submit = port.submit

    def note(operation: Any) -> None:
        submit(operation)
        if isinstance(operation, Send):
            waits.append(port.waits)

    port.submit = note  # type: ignore[method-assign]
    transport, far = loop.run_until_complete(main())
    with far:
        assert waits, "nothing was sent"
        assert port.waits > waits[0], "a wait, in which the port begins, must follow"
        transport.abort()
        loop.run_until_complete(settle())
        loop.close()


def test_closing_the_loop_ends_what_is_in_flight() -> None:
    async def main() -> Any:
        near, far = unix_pair()
        transport, protocol = await asyncio.get_running_loop().connect_accepted_socket(Recorder, near)
        await settle()
        transport.write(b"in flight")
        await settle()
        return transport, protocol, far

    loop, port = scripted_loop()
    transport, protocol, far = loop.run_until_complete(main())
    with far:
        loop.close()
        assert (port.is_closed, port.in_flight) == (True, [])
        with pytest.raises(RuntimeError, match="closed"):
            transport.abort()
        transport._sock.close()
        transport._driver.sock = None
        assert protocol.kinds() == ["made"]


def test_flush_before_the_turn_of_a_send_that_came_back_sends_nothing_twice() -> None:
    async def main() -> Any:
        near, far = unix_pair()
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(Recorder, near)
        await settle()
        transport.write(b"by the port ")
        await settle()
        return transport, far

    loop, port = scripted_loop()
    transport, far = loop.run_until_complete(main())
    with far:
        send = port.only(Send)
        port.complete(send, 12)
        loop._completions.submitted = True
        loop._completions.begin()  # it has come back, without a report
        transport.write(b"behind it")
        loop._flush_this_tick(transport)
        loop.call_soon(loop.flush)
        loop.run_until_complete(settle())
        assert content(port.only(Send)) == b"behind it"
        port.complete(send, 9)
        loop.run_until_complete(settle())
        assert (transport.get_write_buffer_size(), loop.counters().bytes_sent) == (0, 21)
        transport.abort()
        loop.run_until_complete(settle())
        loop.close()


@pytest.mark.parametrize("again", [False, True], ids=["first", "behind another"])
async def test_send_that_the_port_refuses_ends_the_connection_with_the_error(port: ScriptedPort, again: bool) -> None:
    refusal = OSError(errno.ENOMEM, "no memory for it")

    def refuse(operation: Any) -> None:
        raise refusal

    protocol = Recorder()
    async with connection(port, protocol) as (transport, _):
        if again:
            transport.write(b"first")
            await settle()
        port.submit = refuse  # type: ignore[method-assign]
        transport.write(b"refused")
        if again:
            port.complete(port.only(Send), 5)
        await settle()
        del port.submit
        assert protocol.lost_with() is refusal
        assert transport.get_write_buffer_size() == 0


def test_what_is_written_after_an_interrupted_wait_is_sent_by_close() -> None:
    async def main() -> Any:
        near, far = unix_pair()
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(Recorder, near)
        await settle()
        return transport, far

    def interrupted(timeout: float | None) -> Any:
        del port.wait
        port.complete(port.only(Send), 5)  # done, but nobody was told
        raise KeyboardInterrupt

    loop, port = scripted_loop()
    transport, far = loop.run_until_complete(main())
    with far:
        loop.call_soon(transport.write, b"reply")
        loop.call_soon(lambda: setattr(port, "wait", interrupted))
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        transport.write(b" good-bye")
        waits = port.waits
        loop.close()
        assert content(port.submitted[-1]) == b" good-bye"
        assert port.waits == waits + 1, "a wait, in which the port begins, must follow"
        assert loop.counters().bytes_sent == 5
        transport._sock.close()
        transport._driver.sock = None


@pytest.mark.skipif(not hasattr(CompletionDriver, "_needs_turn_after"), reason="compiled, no signal handler runs there")
def test_interruption_while_sends_are_noted_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, port = scripted_loop()
    protocol = Recorder()
    needs_turn_after = CompletionDriver._needs_turn_after

    def interrupted(driver: CompletionDriver, result: Any) -> bool:
        monkeypatch.undo()
        raise KeyboardInterrupt

    async def main() -> None:
        async with connection(port, protocol) as (transport, _):
            transport.write(b"out")
            await settle()
            port.complete(port.only(Receive), b"before ", more=True)
            port.complete(port.only(Send), 3)
            port.complete(port.only(Receive), b"behind", more=True)
            monkeypatch.setattr(CompletionDriver, "_needs_turn_after", interrupted)
            await settle()
            assert protocol.received() == b"before behind"
            assert transport.get_write_buffer_size() == 0
            transport.write(b"again")
            await settle()
            port.complete(port.only(Send), 5)
            await settle()

    task = loop.create_task(main())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(task)
    assert CompletionDriver._needs_turn_after is needs_turn_after
    loop.run_until_complete(task)
    loop.close()
