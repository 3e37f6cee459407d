"""Names to addresses: literals at once and exactly as the C library says, names through a thread."""

import asyncio
import itertools
import logging
import socket
import threading
from typing import Any

import pytest

from loopcore.services.literals import resolve_literal
from loopcore.services.resolver import Resolver

Loop = asyncio.AbstractEventLoop

# fmt: off
HOSTS = [
    "127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:1.2.3.4", "fe80::1%lo", "fe80::1%1", "fe80::1%nowhere", "127.1",
    "1.2.3", "0x7f000001", "256.1.1.1", "1:2", b"127.0.0.1", b"::1", None, "", "192.0.2.255", "2001:DB8::01",
    b"\xff", "::1\0", "010.0.0.1", "127.000.000.001",
]
PORTS: list[Any] = [80, 0, "80", "0", "", None, b"80", 65535, 65536, -1]
FAMILIES = [socket.AF_UNSPEC, socket.AF_INET, socket.AF_INET6]
KINDS = [
    (0, 0), (socket.SOCK_STREAM, 0), (socket.SOCK_DGRAM, 0), (socket.SOCK_STREAM, socket.IPPROTO_TCP),
    (socket.SOCK_STREAM, socket.IPPROTO_UDP), (0, socket.IPPROTO_UDP), (socket.SOCK_RAW, 0), (99, 0),
]
FLAGS = [
    0, socket.AI_PASSIVE, socket.AI_NUMERICHOST, socket.AI_NUMERICSERV | socket.AI_PASSIVE, socket.AI_CANONNAME,
    socket.AI_V4MAPPED | socket.AI_ALL,
]
BAD = [
    ("127.0.0.1", 80, 99), ("127.0.0.1", "nonsense", 0), ("1.2.3.4.5", 80, 0), ("127.0.0.1", 80, socket.AF_INET6),
    (1, 80, 0), ("127.0.0.1", [], 0),
]
# fmt: on


class Spelled(str):
    """A host that is a str, but not exactly one."""


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as exc:
        return type(exc), exc.args


def test_literals_are_answered_as_by_the_c_library() -> None:
    answered = 0
    for host, port, family, (kind, proto), flags in itertools.product(HOSTS, PORTS, FAMILIES, KINDS, FLAGS):
        question = (host, port, family, kind, proto, flags)
        answer = resolve_literal(*question)
        if answer is not None:
            answered += 1
            assert answer == outcome(socket.getaddrinfo, *question), question
            assert [list(map(type, row)) for row in answer] == [
                list(map(type, row)) for row in socket.getaddrinfo(*question)
            ]
    assert answered > 3000


@pytest.mark.parametrize("host", ["localhost", "example.invalid", "1.2.3.4.5", "fe80::1%nowhere"])
def test_names_are_not_answered_without_a_thread(host: str) -> None:
    assert resolve_literal(host, 80, 0, 0, 0, 0) is None


def test_service_names_are_not_answered_without_a_thread() -> None:
    assert resolve_literal("127.0.0.1", "http", 0, 0, 0, 0) is None


class NoThreads:
    """A loop that must not be asked for a thread."""

    slow_callback_duration = 0.1

    def run_in_executor(self, executor: None, func: Any, *args: Any) -> Any:
        raise AssertionError(f"asked for a thread: {func}{args}")

    def time(self) -> float:
        return 0.0

    def get_debug(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("host", "port"), [("127.0.0.1", 80), ("::1", "80"), ("fe80::1%lo", 80), (None, 0), (b"::", None)]
)
def test_literals_need_no_thread(host: Any, port: Any) -> None:
    asking = Resolver(NoThreads()).getaddrinfo(host, port, type=socket.SOCK_STREAM).__await__()
    with pytest.raises(StopIteration) as done:
        next(asking)
    assert done.value.value == socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)


def test_numeric_nameinfo_needs_no_thread() -> None:
    asking = Resolver(NoThreads()).getnameinfo(("127.0.0.1", 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
    with pytest.raises(StopIteration) as done:
        asking.send(None)
    assert done.value.value == ("127.0.0.1", "80")


@pytest.mark.covers("EventLoop.getaddrinfo(type)")
def test_getaddrinfo_of_a_name(loop: Loop) -> None:
    found = loop.run_until_complete(loop.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM))
    assert found == socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)


def test_getaddrinfo_of_a_service_name(loop: Loop) -> None:
    found = loop.run_until_complete(loop.getaddrinfo("127.0.0.1", "http", type=socket.SOCK_STREAM))
    assert found == socket.getaddrinfo("127.0.0.1", "http", type=socket.SOCK_STREAM)


@pytest.mark.parametrize("question", BAD)
def test_errors_are_those_of_the_socket_module(loop: Loop, question: Any) -> None:
    host, port, family = question
    wanted = outcome(socket.getaddrinfo, host, port, family)
    assert outcome(loop.run_until_complete, loop.getaddrinfo(host, port, family=family)) == wanted


def test_names_are_looked_up_in_a_thread(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def look_up(host: str, port: int, family: int, kind: int, proto: int, flags: int) -> list[Any]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "no literal")
        threads.append(threading.current_thread())
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert loop.run_until_complete(loop.getaddrinfo("a.name", 80)) == []
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "127.0.0.1\0", "\uff11.2.3.4", Spelled("127.0.0.1")])
@pytest.mark.parametrize("port", [80, True, 65536, 2**70])
def test_literals_that_are_nearly_plain_are_asked_as_by_socket(loop: Loop, host: str, port: int) -> None:
    question = (host, port, 0, socket.SOCK_STREAM)
    answer = outcome(loop.run_until_complete, loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    assert answer == outcome(socket.getaddrinfo, *question)


def test_an_answer_that_nobody_wants_in_the_end_is_warned_of(loop: Loop) -> None:
    with pytest.warns(RuntimeWarning, match="getaddrinfo' was never awaited"):
        loop.getaddrinfo("127.0.0.1", 80)


@pytest.mark.parametrize("name", ["family", "type", "proto", "flags"])
def test_what_is_no_integer_is_refused_for_literals_too(loop: Loop, name: str) -> None:
    for host in ("127.0.0.1", "::1", None):
        with pytest.raises(TypeError, match="integer"):
            loop.run_until_complete(loop.getaddrinfo(host, 80, **{name: 0.0}))  # type: ignore[arg-type]


async def test_an_answer_to_a_literal_can_be_waited_for_in_every_way(loop: Loop) -> None:
    wanted = socket.getaddrinfo("127.0.0.1", 80)
    assert await asyncio.create_task(loop.getaddrinfo("127.0.0.1", 80)) == wanted
    assert await asyncio.ensure_future(loop.getaddrinfo("127.0.0.1", 80)) == wanted
    assert await asyncio.wait_for(loop.getaddrinfo("127.0.0.1", 80), 60) == wanted
    assert await asyncio.gather(loop.getaddrinfo("127.0.0.1", 80)) == [wanted]


@pytest.mark.covers("EventLoop.getnameinfo(flags)")
def test_getnameinfo(loop: Loop) -> None:
    found = loop.run_until_complete(loop.getnameinfo(("127.0.0.1", 80), socket.NI_NUMERICHOST))
    assert found == socket.getnameinfo(("127.0.0.1", 80), socket.NI_NUMERICHOST)


@pytest.mark.loopcore_only
def test_debug_mode_logs_how_long_a_look_up_took(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0
    with caplog.at_level(logging.INFO, "asyncio"):
        loop.run_until_complete(loop.getaddrinfo("localhost", 80))
    assert any(message.startswith("Getting address info ('localhost', 80") for message in caplog.messages)
