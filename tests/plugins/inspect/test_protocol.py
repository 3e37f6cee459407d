"""What the socket understands, and what it does with everything else."""

import asyncio
import json
import os
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loopcore import UsageError
from loopcore_plugins.inspect import Inspect
from loopcore_plugins.inspect.client import GoneError, connect, find
from loopcore_plugins.inspect.places import Listener
from loopcore_plugins.inspect.protocol import LONGEST_QUESTION, Lines, ProtocolError, decode
from loopcore_plugins.inspect.server import MOST_CONNECTIONS, Connection, Server
from tests.plugins.inspect.processes import PATIENCE

pytestmark = pytest.mark.loopcore_only


@contextmanager
def visitor() -> Iterator[socket.socket]:
    (address,) = find("all")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(str(address.path))
        yield sock


def lines_of(sock: socket.socket, count: int | None = None) -> list[Any]:
    """Return `count` lines that come, or all until the end."""
    with sock.makefile("rb") as file:
        return [json.loads(line) for _, line in zip(range(count or 10**6), file, strict=False)]


def looked_at(loop: Any, look: Callable[[], Any]) -> Any:
    """Return what `look()` returns, in a thread, while the loop runs with the plugin."""
    loop.probes.register(Inspect())
    return loop.run_until_complete(asyncio.to_thread(look))


def said(loop: Any, data: bytes) -> list[Any]:
    """Return all that comes after the greeting when `data` was said."""

    def look() -> list[Any]:
        with visitor() as sock:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            return lines_of(sock)[1:]

    found: list[Any] = looked_at(loop, look)
    return found


def test_the_greeting_says_who_it_is(folder: Path, loop: Any, backend_name: str) -> None:
    def look() -> Any:
        with visitor() as sock:
            return lines_of(sock, 1)

    (greeting,) = looked_at(loop, look)
    assert greeting["loopcore-inspect"] == 1
    assert greeting["backend"] == backend_name


def test_answers_come_in_the_order_of_the_questions(folder: Path, loop: Any) -> None:
    questions = b"".join(b'{"id": %d, "ask": "ps"}\n' % number for number in range(40))
    assert [reply["id"] for reply in said(loop, questions)] == list(range(40))


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\xff\xfe\n",
        b"[" * 4000 + b"\n",
        b"9" * 4000 + b"\n",
        b"[1]\n",
        b"null\n",
        b"x" * (LONGEST_QUESTION + 1),
        b'{"ask": "ps"' + b" " * LONGEST_QUESTION + b"}\n",
    ],
)
def test_garbage_is_answered_once_and_ends_the_connection(folder: Path, loop: Any, garbage: bytes) -> None:
    def look() -> tuple[list[Any], Any]:
        with visitor() as sock:
            sock.sendall(garbage)
            try:
                replies = lines_of(sock)
            except ConnectionResetError:  # what was not read of it any more
                replies = [None, {"error": "reset"}]
        with connect(find("all")[0]) as client:
            return replies, client.ask("ps")

    replies, answer = looked_at(loop, look)
    assert len(replies) == 2
    assert replies[1]["error"]
    assert answer["running"]


@pytest.mark.parametrize(
    ("question", "error"),
    [
        ({"ask": "everything"}, "there is no question"),
        ({"ask": ["ps"]}, "there is no question"),
        ({}, "there is no question"),
        ({"ask": "cancel"}, "there is no task"),
        ({"ask": "cancel", "task": "1"}, "there is no task"),
        ({"ask": "watch", "parts": "meter"}, "must be a list of names"),
        ({"ask": "watch", "parts": [[]]}, "must be a list of names"),
        ({"ask": "watch", "parts": ["meter", "all"]}, "there are no parts"),
    ],
)
def test_a_wrong_question_is_refused_and_the_next_is_answered(
    folder: Path, loop: Any, question: dict[str, Any], error: str
) -> None:
    data = json.dumps({"id": 1, **question}) + "\n" + json.dumps({"id": 2, "ask": "ps"}) + "\n"
    refused, answered = said(loop, data.encode())
    assert refused["id"] == 1
    assert error in refused["error"]
    assert answered["answer"]["tasks"]


ODD: list[bytes] = [
    b'{"id":' + b"[" * depth + b"]" * depth + b',"ask":"nothing"}' for depth in (1, 500, *range(960, 1000), 1500, 2000)
]
ODD += [b'{"ask":' + b"[" * depth + b"]" * depth + b"}" for depth in (1, 8, *range(960, 1000), 2000)]
ODD += [b'{"ask":"watch","parts":' + b'{"":' * 900 + b"1" + b"}" * 900 + b"}"]
ODD += [b'{"id":' + value + b',"ask":"ps"}' for value in (b"NaN", b"-Infinity", b"1e999", b"1.5", b"9" * 4050, b"{}")]
ODD += [b'{"ask":"cancel","task":' + value + b"}" for value in (b"1e999", b"9" * 4050, b"-0", b"NaN", b'"\\ud800"')]
ODD += [
    b'{"id":"\\ud800\\u0000","ask":"\\udfff\\u001b[2J"}',
    b'{"id":"\xed\xa0\x80"}',
    b'{"id":"\xff"}',
    b"\xef\xbb\xbf{}",
]
ODD += ['{"ask":"ps"}'.encode(encoding) for encoding in ("utf-16", "utf-32", "utf-16-be")]
ODD += [b'{"id":1,"id":[],"ask":"ps"}', b'{"ask":"watch","parts":["\\ud800"]}', b'{"ask":true}', b"\0" * 4000, b""]
"""Questions that are not meant to be asked."""


def test_no_question_ends_more_than_its_own_visit(folder: Path, loop: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Issue 32: one that could be decoded, but not encoded again, ended the server."""

    def look() -> Any:
        for question in ODD:
            with visitor() as sock:
                sock.sendall(question + b"\n")
                greeting, reply = lines_of(sock, 2)
                assert greeting["pid"]
                assert "answer" in reply or reply["error"], question
        with connect(find("all")[0]) as client:
            return client.ask("ps")

    assert looked_at(loop, look)["running"]
    assert caplog.text == ""


def test_an_answer_that_fails_ends_the_visit_and_is_logged_once(
    folder: Path, loop: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it fails for: tasks may be of a class of the program's."""

    class Odd(asyncio.Task[None]):
        def get_name(self) -> str:
            raise MemoryError

    async def main() -> Any:
        task = Odd(asyncio.sleep(99), loop=asyncio.get_running_loop())
        try:
            return await asyncio.to_thread(look)
        finally:
            task.cancel()

    def look() -> Any:
        for _ in range(3):
            with visitor() as sock:
                sock.sendall(b'{"id":1,"ask":"ps"}\n' * 2)
                (_, reply) = lines_of(sock)
                assert "MemoryError" in reply["error"]
        with connect(find("all")[0]) as client:
            return client.ask("sample")["running"]

    loop.probes.register(Inspect())
    assert loop.run_until_complete(main())
    assert caplog.text.count("inspect failed to answer") == 1


class FakeHost:
    """Answers with what it was asked; each answer waits until it is let go."""

    def __init__(self, visitors: int) -> None:
        self.asked: list[str] = []
        self.may_answer = threading.Semaphore(0)
        self.visitors = visitors
        self.all_have_come = threading.Event()
        self._looks = 0

    def greeting(self) -> Any:
        self.visitors -= 1
        if not self.visitors:
            self.all_have_come.set()
        return {}

    def answer(self, visitor: object, question: Any) -> Any:
        self.may_answer.acquire()
        self.asked.append(question["ask"])
        return {}

    def forget(self, visitor: object) -> None:
        pass

    def look(self) -> None:
        self._looks += 1
        if self._looks % 2:
            raise RuntimeError("it fails every other time")


@contextmanager
def served(host: FakeHost) -> Iterator[None]:
    listener = Listener(os.getpid(), 1)
    server = Server(listener, host)
    server.start()
    try:
        yield
    finally:
        server.stop()


def test_connections_take_turns(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Issue 32: else one that asks without end has the server for itself. And a look that fails ends nothing."""
    host = FakeHost(2)
    with served(host), visitor() as many, visitor() as one:
        assert host.all_have_come.wait(PATIENCE)
        many.sendall(b'{"ask":"a"}\n' * 20)
        one.sendall(b'{"ask":"b"}\n')
        host.may_answer.release(30)
        assert len(lines_of(many, 21)) == 21
        assert len(lines_of(one, 2)) == 2
    assert host.asked.index("b") <= 2
    assert caplog.text.count("inspect failed to answer") == 1


def test_nothing_is_received_while_a_question_waits() -> None:
    """Issue 32: what a visitor has asked and not read would grow without end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours)
        theirs.sendall(b"1\n2\n")
        assert connection.next_question() == b"1"
        theirs.sendall(b"3\n")
        assert connection.interest() == selectors.EVENT_WRITE
        assert connection.next_question() == b"2"
        assert connection.interest() == selectors.EVENT_READ
        assert ours.recv(100) == b"3\n"


def test_the_client_says_what_was_refused(folder: Path, loop: Any) -> None:
    def look() -> None:
        with connect(find("all")[0]) as client:
            client.ask("everything")

    with pytest.raises(UsageError, match="there is no question 'everything'"):
        looked_at(loop, look)


def test_who_does_not_read_is_not_waited_for(folder: Path, loop: Any) -> None:
    def look() -> Any:
        with visitor() as lazy:
            lazy.setblocking(False)
            try:
                while True:
                    lazy.send(b'{"ask": "stacks"}\n' * 100)
            except BlockingIOError:  # the process reads no further
                pass
            with connect(find("all")[0]) as client:
                return client.ask("ps")

    assert looked_at(loop, look)["running"]


def test_there_is_a_limit_of_connections_and_it_recovers(folder: Path, loop: Any) -> None:
    def look() -> tuple[bytes, Any]:
        path = str(find("all")[0].path)
        socks = []
        for _ in range(MOST_CONNECTIONS):
            socks.append(socket.socket(socket.AF_UNIX))
            socks[-1].settimeout(PATIENCE)
            socks[-1].connect(path)
            socks[-1].recv(1)
        with visitor() as late:
            turned_away = late.recv(1)
        for sock in socks:
            sock.close()
        for _ in range(1000):  # until the loop has noticed that they are gone
            try:
                with connect(find("all")[0]) as client:
                    return turned_away, client.ask("ps")
            except GoneError:
                pass
        raise AssertionError("no connection is taken any more")

    turned_away, answer = looked_at(loop, look)
    assert turned_away == b""
    assert answer["running"]


def test_lines_come_whole_however_they_are_cut() -> None:
    lines = Lines(10)
    assert [lines.feed(bytes([byte])) for byte in b"ab\nc\n"] == [[], [], [b"ab"], [], [b"c"]]
    with pytest.raises(ProtocolError):
        lines.feed(b"0123456789")


def test_only_objects_are_messages() -> None:
    assert decode(b'{"a": 1}') == {"a": 1}
    for line in (b"", b"1", b'"a"', b"{", b"[" * 100_000):
        with pytest.raises(ProtocolError):
            decode(line)
