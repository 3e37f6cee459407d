"""Debug mode: what is reported says where it was made, as asyncio's reports do."""

import asyncio
import gc
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

import loopcore

Loop = asyncio.AbstractEventLoop

pytestmark = pytest.mark.reports_errors


@pytest.fixture
def reported(loop: Loop, caplog: pytest.LogCaptureFixture) -> Callable[[Callable[[], object]], list[str]]:
    """Return a function that runs another as a callback in debug mode, and gives the lines of what is reported."""

    def run(callback: Callable[[], object]) -> list[str]:
        loop.set_debug(True)
        loop.slow_callback_duration = 100
        loop.call_soon(callback)
        loop.call_soon(lambda: loop.call_soon(loop.stop))
        loop.run_forever()
        (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
        return record.getMessage().splitlines()

    return run


def test_report_of_a_running_callback_says_where_it_was_scheduled(loop: Loop, reported: Any) -> None:
    lines = reported(lambda: loop.call_exception_handler({"message": "told"}))
    assert lines[:2] == ["told", "handle_traceback: Handle created at (most recent call last):"]
    assert lines[-1] == "    loop.call_soon(callback)"


def test_report_of_a_running_task_says_where_it_was_made(loop: Loop, reported: Any) -> None:
    async def tell() -> None:
        loop.call_exception_handler({"message": "told"})

    lines = reported(lambda: loop.create_task(tell()))
    assert "handle_traceback: Handle created at (most recent call last):" in lines
    assert "    lines = reported(lambda: loop.create_task(tell()))" in lines


@pytest.mark.loopcore_only
def test_report_by_another_thread_does_not_name_the_callback_that_runs(loop: Loop, reported: Any) -> None:
    def tell() -> None:
        thread = threading.Thread(target=loop.call_exception_handler, args=({"message": "told"},))
        thread.start()
        thread.join()

    assert reported(tell) == ["told"]


def test_failed_callback_says_where_it_was_made_and_not_twice(loop: Loop, reported: Any) -> None:
    lines = reported(lambda: 1 // 0)
    assert "source_traceback: Object created at (most recent call last):" in lines
    assert lines[-1] == "    loop.call_soon(callback)"
    assert not any(line.startswith("handle_traceback") for line in lines)


def test_handler_of_the_program_is_told_no_more_than_was_reported(loop: Loop) -> None:
    contexts: list[Any] = []
    loop.set_debug(True)
    loop.set_exception_handler(lambda _, context: contexts.append(dict(context)))
    loop.call_soon(lambda: loop.call_exception_handler({"message": "told"}))
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert contexts == [{"message": "told"}]


def test_outside_of_callbacks_and_of_debug_mode_nothing_is_added(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    loop.call_soon(lambda: loop.call_exception_handler({"message": "not in debug mode"}))
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.set_debug(True)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.call_exception_handler({"message": "not in a callback"})
    reports = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert reports == ["not in debug mode", "not in a callback"]


def test_place_of_a_task_that_failed_unseen_is_shown_up_to_the_call_that_runs_the_loop(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ValueError("unseen")

    async def main() -> None:
        task = loop.create_task(fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task
        gc.collect()

    loop.set_debug(True)
    loop.slow_callback_duration = 100
    loop.run_until_complete(main())
    (report,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    lines = report.splitlines()
    assert "    task = loop.create_task(fail())" in lines
    assert "    loop.run_until_complete(main())" in lines
    assert not any("loopcore/kernel/" in line for line in lines)


def test_report_of_a_failing_protocol_names_transport_and_protocol(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            raise ZeroDivisionError

        def connection_lost(self, exc: Exception | None) -> None:
            loop.stop()

    left, right = socket.socketpair()
    loop.set_debug(True)
    loop.slow_callback_duration = 100
    loop.run_until_complete(loop.create_connection(Failing, sock=left))
    with right:
        right.send(b"x")
        loop.run_forever()
    (report,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert report.startswith("Fatal error: protocol.data_received() call failed.")
    assert "\nprotocol: <" in report
    assert "\ntransport: <" in report


def test_warnings_of_slow_callbacks_are_those_of_asyncio(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    """Programs look for them on asyncio's logger, and name what took long by the record's first argument (issue 32)."""
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0

    async def work() -> None:
        pass

    def callback() -> None:
        loop.create_task(work(), name="slow one")
        loop.call_soon(loop.stop)

    loop.call_soon(callback)
    loop.run_forever()
    slow = [each for each in caplog.records if each.getMessage().startswith("Executing ")]
    assert {(each.name, each.levelname, each.msg) for each in slow} == {
        ("asyncio", "WARNING", "Executing %s took %.3f seconds")
    }
    shown = [each.args[0] for each in slow]
    assert any(text.startswith("<Handle ") and "callback" in text for text in shown)
    assert any(text.startswith("<Task finished name='slow one'") for text in shown)


def test_slow_protocol_is_named_with_its_transport(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    if not isinstance(loop, loopcore.EventLoop):
        pytest.skip("asyncio names a method of its transport")

    class Receiver(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            loop.stop()

    left, right = socket.socketpair()
    transport, _ = loop.run_until_complete(loop.create_connection(Receiver, sock=left))
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0
    right.send(b"x")
    loop.run_forever()
    transport.close()
    loop.run_until_complete(asyncio.sleep(0))
    right.close()
    slow = [str(each.args[0]) for each in caplog.records if each.getMessage().startswith("Executing ")]
    assert any("fd=" in text and ".Receiver>" in text for text in slow), slow


def test_what_asyncio_logs_goes_to_its_logger(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    """No record of a transport's life, or of an exception that nobody catches, is anywhere else (issue 32)."""
    loop.set_debug(True)
    caplog.set_level("DEBUG")

    async def main() -> None:
        served = asyncio.get_running_loop().create_future()

        def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()
            writer.transport.resume_reading()
            writer.close()
            served.set_result(None)

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await served
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()

    loop.run_until_complete(main())
    loop.call_soon(lambda: 1 // 0)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert {each.name for each in caplog.records} == {"asyncio"}
    said = caplog.text
    for text in ("is serving", "got a new connection from", "connected to", "pauses reading", "received EOF"):
        assert text in said
    assert "ZeroDivisionError" in said
