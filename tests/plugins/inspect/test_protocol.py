"""What the socket understands, and what it does with everything else."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loopcore import UsageError
from loopcore_plugins.inspect import Inspect
from loopcore_plugins.inspect.client import GoneError, connect, find
from loopcore_plugins.inspect.protocol import LONGEST_QUESTION, Lines, ProtocolError, decode
from loopcore_plugins.inspect.server import MOST_CONNECTIONS
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
        ({"ask": "watch", "parts": "meter"}, "a list of names"),
        ({"ask": "watch", "parts": [[]]}, "a list of names"),
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
