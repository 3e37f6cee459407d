"""`create_datagram_endpoint`: its parameters, what it refuses, and what it leaves behind when it fails: nothing."""

import asyncio
import errno
import logging
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.transports.datagram_support import ANY_PORT, DatagramRecorder, drain, endpoint, udp_socket, unix_socket
from tests.transports.recorder import run

Loop = asyncio.AbstractEventLoop


def refused(loop: Loop, kind: type[BaseException], match: str, *args: Any, **kwargs: Any) -> None:
    with pytest.raises(kind, match=match):
        run(loop, loop.create_datagram_endpoint(DatagramRecorder, *args, **kwargs))


def test_without_any_address_the_family_must_be_told(loop: Loop) -> None:
    refused(loop, ValueError, "unexpected address family")


@pytest.mark.covers("EventLoop.create_datagram_endpoint(family)")
async def test_a_family_alone_makes_an_unbound_endpoint() -> None:
    with udp_socket() as peer:
        async with endpoint(DatagramRecorder(), family=socket.AF_INET) as transport:
            transport.sendto(b"x", peer.getsockname())
            assert await drain(peer, 1) == [b"x"]


async def test_a_socket_that_has_a_transport_is_refused(loop: Loop, backend_name: str) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 12):
        pytest.skip("asyncio does so since Python 3.12")
    sock = udp_socket()
    async with endpoint(DatagramRecorder(), sock=sock):
        with pytest.raises(RuntimeError, match=r"^File descriptor <socket.socket fd=.*> is used by transport <"):
            await loop.create_datagram_endpoint(DatagramRecorder, sock=sock)
        assert sock.fileno() != -1  # refused, and not closed


@pytest.mark.parametrize("address", ["127.0.0.1", ("127.0.0.1",), ["127.0.0.1", 0], ("::1", 0, 0, 0)])
@pytest.mark.parametrize("which", ["local_addr", "remote_addr"])
def test_an_address_is_a_pair(loop: Loop, address: Any, which: str) -> None:
    refused(loop, TypeError, "2-tuple is expected", **{which: address})


@pytest.mark.parametrize("which", ["local_addr", "remote_addr"])
def test_a_unix_address_is_text(loop: Loop, which: str) -> None:
    refused(loop, TypeError, "string is expected", **{which: ("127.0.0.1", 1)}, family=socket.AF_UNIX)


def test_reuse_address_is_no_parameter_any_more(loop: Loop) -> None:
    refused(loop, TypeError, "unexpected keyword argument 'reuse_address'", ANY_PORT, reuse_address=True)


def test_addresses_must_have_a_family_in_common(loop: Loop) -> None:
    refused(loop, ValueError, "can not get address information", ("127.0.0.1", 0), ("::1", 1))


def test_a_stream_socket_is_refused(loop: Loop) -> None:
    with socket.socket() as sock:
        refused(loop, ValueError, "[sS]ocket was expected, got", sock=sock)
        assert sock.fileno() >= 0


def test_a_socket_comes_without_modifiers(loop: Loop) -> None:
    modifiers: dict[str, Any] = {
        "local_addr": ANY_PORT, "remote_addr": ANY_PORT, "family": 1, "proto": 1, "flags": 1, "reuse_port": True,
        "allow_broadcast": True,
    }  # fmt: skip
    with udp_socket() as sock:
        for name, value in modifiers.items():
            refused(loop, ValueError, rf"can not be used when sock is specified. \({name}=", sock=sock, **{name: value})


@pytest.mark.covers("EventLoop.create_datagram_endpoint(sock)")
async def test_a_socket_is_made_non_blocking_and_taken_over() -> None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    async with endpoint(DatagramRecorder(), sock=sock):
        assert sock.gettimeout() == 0
    assert sock.fileno() == -1


def test_the_ports_own_refusal_is_raised(loop: Loop) -> None:
    with udp_socket() as taken:
        with pytest.raises(OSError) as caught:
            run(loop, loop.create_datagram_endpoint(DatagramRecorder, taken.getsockname()))
        assert caught.value.errno == errno.EADDRINUSE


async def test_names_are_looked_up_for_datagrams(loop: Loop) -> None:
    asked: list[Any] = []
    look_up = loop.getaddrinfo

    async def getaddrinfo(host: Any, port: Any, **kwargs: Any) -> Any:
        asked.append((host, port, kwargs))
        return await look_up("127.0.0.1", port, **kwargs)

    loop.getaddrinfo = getaddrinfo  # type: ignore[assignment, method-assign]
    with udp_socket() as peer:
        address = ("peer.example", peer.getsockname()[1])
        async with endpoint(DatagramRecorder(), remote_addr=address, family=socket.AF_INET) as transport:
            transport.sendto(b"x")
            assert await drain(peer, 1) == [b"x"]
        (asking,) = asked
        assert asking == (*address, {"family": socket.AF_INET, "type": socket.SOCK_DGRAM, "proto": 0, "flags": 0})


def test_a_name_without_addresses_is_an_error(loop: Loop) -> None:
    async def getaddrinfo(*args: Any, **kwargs: Any) -> list[Any]:
        return []

    loop.getaddrinfo = getaddrinfo  # type: ignore[assignment, method-assign]
    refused(loop, OSError, r"getaddrinfo\(\) returned empty list", ("peer.example", 1))


async def test_the_next_address_is_tried_and_the_first_refusal_raised(loop: Loop) -> None:
    async def getaddrinfo(host: Any, port: Any, **kwargs: Any) -> list[Any]:
        first = (socket.AF_INET6, socket.SOCK_DGRAM, 0, "", ("2001:db8::1", 0, 0, 0))  # for documentation: not ours
        if host == "both.example":
            return [first, (socket.AF_INET, socket.SOCK_DGRAM, 0, "", ANY_PORT)]
        return [first]

    loop.getaddrinfo = getaddrinfo  # type: ignore[assignment, method-assign]
    async with endpoint(DatagramRecorder(), ("both.example", 0)) as transport:
        assert transport.get_extra_info("sockname")[0] == "127.0.0.1"
    with pytest.raises(OSError) as caught:
        await loop.create_datagram_endpoint(DatagramRecorder, ("one.example", 0))
    assert caught.value.errno == errno.EADDRNOTAVAIL


@pytest.mark.covers("EventLoop.create_datagram_endpoint(reuse_port)")
async def test_two_endpoints_can_share_a_port() -> None:
    async with endpoint(DatagramRecorder(), ANY_PORT, reuse_port=True) as first:
        name = first.get_extra_info("sockname")
        async with endpoint(DatagramRecorder(), name, reuse_port=True) as second:
            assert second.get_extra_info("sockname") == name


def test_where_ports_cannot_be_shared_that_is_said(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "SO_REUSEPORT")
    refused(loop, ValueError, "reuse_port not supported by socket module", ANY_PORT, reuse_port=True)


def test_a_factory_that_raises_leaves_the_programs_socket_alone(loop: Loop) -> None:
    def fail() -> Any:
        raise ZeroDivisionError

    with udp_socket() as sock:
        with pytest.raises(ZeroDivisionError):
            run(loop, loop.create_datagram_endpoint(fail, sock=sock))
        assert sock.fileno() >= 0


@pytest.mark.differs(
    "EventLoop.create_datagram_endpoint",
    why="If the protocol's factory raises, the socket is closed; asyncio leaves it to the garbage collector.",
)
@pytest.mark.loopcore_only
def test_a_factory_that_raises_leaves_no_socket_behind(loop: Loop) -> None:
    """asyncio forgets the socket that it has made."""

    def fail() -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(loop, loop.create_datagram_endpoint(fail, ANY_PORT))


async def test_cancelled_while_opening_it_closes_the_socket(loop: Loop) -> None:
    protocol = DatagramRecorder()
    task = loop.create_task(loop.create_datagram_endpoint(lambda: protocol, ANY_PORT))
    protocol.react["made"] = task.cancel
    with pytest.raises(asyncio.CancelledError):
        await task
    await protocol.seen("lost")


async def test_a_stale_unix_socket_is_replaced_and_other_files_are_not(loop: Loop, tmp_path: Path) -> None:
    stale, other = tmp_path / "stale", tmp_path / "other"
    unix_socket(stale).close()
    other.write_text("precious")
    async with endpoint(DatagramRecorder(), str(stale), family=socket.AF_UNIX) as transport:
        assert transport.get_extra_info("sockname") == str(stale)
    with pytest.raises(OSError) as caught:
        await loop.create_datagram_endpoint(DatagramRecorder, str(other), family=socket.AF_UNIX)
    assert caught.value.errno == errno.EADDRINUSE
    assert other.read_text() == "precious"


@pytest.mark.skipif(not os.path.exists("/proc/net/unix"), reason="abstract names are Linux's")
async def test_a_unix_socket_can_have_an_abstract_name() -> None:
    name = f"\0loopcore-{os.getpid()}"
    async with (
        endpoint(DatagramRecorder(), name, family=socket.AF_UNIX) as server,
        endpoint(DatagramRecorder(), remote_addr=name, family=socket.AF_UNIX) as client,
    ):
        client.sendto(b"x")
        await server.get_protocol().seen("datagram")


async def test_debug_mode_logs_the_endpoint(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    loop.set_debug(True)
    caplog.set_level(logging.DEBUG, "asyncio")
    async with endpoint(DatagramRecorder(), ANY_PORT):
        pass
    assert "Datagram endpoint local_addr=('127.0.0.1', 0)" in caplog.text
