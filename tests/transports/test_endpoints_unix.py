"""create_unix_connection and create_unix_server: paths of every kind, stale files, and what is cleaned up."""

import asyncio
import errno
import os
import socket
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.transports.endpoints_support import Greeter, noting_backlogs, run, stop

pytestmark = [
    pytest.mark.settles,
    pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no Unix sockets on this system"),
]


async def greeting(path: Any) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "s")


@pytest.mark.covers("EventLoop.create_unix_server(path)", "EventLoop.create_unix_connection(path)")
@pytest.mark.parametrize("convert", [str, os.fsencode, Path], ids=["text", "bytes", "path-like"])
async def test_a_path_of_any_type_is_served_and_reached(
    loop: asyncio.AbstractEventLoop, path: str, convert: Callable[[str], Any]
) -> None:
    server = await loop.create_unix_server(Greeter, convert(path))
    assert await greeting(convert(path)) == b"hello"
    await stop(server)


@pytest.mark.skipif(sys.platform != "linux", reason="abstract names are Linux's")
@pytest.mark.parametrize("convert", [str, os.fsencode], ids=["text", "bytes"])
async def test_an_abstract_name_makes_no_file(
    loop: asyncio.AbstractEventLoop, convert: Callable[[str], Any], tmp_path: Path
) -> None:
    name = convert(f"\0loopcore{tmp_path}")
    server = await loop.create_unix_server(Greeter, name)
    assert await greeting(name) == b"hello"
    await stop(server)
    assert not list(tmp_path.iterdir())


async def test_what_listens_has_the_backlog_and_does_not_block(loop: asyncio.AbstractEventLoop, path: str) -> None:
    sock, asked = noting_backlogs(socket.AF_UNIX)
    sock.bind(path)
    server = await loop.create_unix_server(Greeter, sock=sock, backlog=7)
    assert asked == [7]
    assert not sock.getblocking()
    await stop(server)


async def test_a_stale_socket_file_is_replaced(loop: asyncio.AbstractEventLoop, path: str) -> None:
    with socket.socket(socket.AF_UNIX) as earlier:
        earlier.bind(path)
    server = await loop.create_unix_server(Greeter, path)
    assert await greeting(path) == b"hello"
    await stop(server)


def test_a_file_that_is_no_socket_is_left_alone(loop: asyncio.AbstractEventLoop, path: str) -> None:
    Path(path).write_text("precious")
    with pytest.raises(OSError, match=f"Address {path!r} is already in use") as caught:
        run(loop, loop.create_unix_server(Greeter, path))
    assert caught.value.errno == errno.EADDRINUSE
    assert Path(path).read_text() == "precious"


def test_a_missing_directory_is_the_systems_error(loop: asyncio.AbstractEventLoop, path: str) -> None:
    with pytest.raises(FileNotFoundError):
        run(loop, loop.create_unix_server(Greeter, path + "/none/s"))


def closes_up(backend_name: str, **options: Any) -> dict[str, Any]:
    if backend_name == "asyncio" and sys.version_info < (3, 13):
        pytest.skip("asyncio has cleanup_socket since Python 3.13")
    return options


async def test_by_default_the_file_goes_as_on_the_running_python(loop: asyncio.AbstractEventLoop, path: str) -> None:
    server = await loop.create_unix_server(Greeter, path)
    await stop(server)
    assert os.path.exists(path) is (sys.version_info < (3, 13))


@pytest.mark.covers("EventLoop.create_unix_server(cleanup_socket)")
async def test_cleanup_socket_removes_the_file(loop: asyncio.AbstractEventLoop, path: str, backend_name: str) -> None:
    options = closes_up(backend_name, cleanup_socket=True)
    server = await loop.create_unix_server(Greeter, path, **options)
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    await stop(server)
    assert not os.path.exists(path)
    server.close()


async def test_cleanup_spares_a_file_that_took_the_place(
    loop: asyncio.AbstractEventLoop, path: str, backend_name: str
) -> None:
    options = closes_up(backend_name, cleanup_socket=True)
    server = await loop.create_unix_server(Greeter, path, **options)
    os.rename(path, path + ".old")
    Path(path).write_text("another")
    await stop(server)
    assert Path(path).read_text() == "another"


async def test_without_cleanup_the_file_stays(loop: asyncio.AbstractEventLoop, path: str, backend_name: str) -> None:
    options = closes_up(backend_name, cleanup_socket=False)
    server = await loop.create_unix_server(Greeter, path, **options)
    await stop(server)
    assert os.path.exists(path)


@pytest.mark.covers("EventLoop.create_unix_server(sock)")
async def test_cleanup_is_for_the_programs_socket_too(
    loop: asyncio.AbstractEventLoop, path: str, backend_name: str
) -> None:
    options = closes_up(backend_name, cleanup_socket=True)
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path)
    server = await loop.create_unix_server(Greeter, sock=sock, **options)
    assert await greeting(path) == b"hello"
    await stop(server)
    assert not os.path.exists(path)
    assert sock.fileno() == -1


def test_nobody_listening_is_refused(loop: asyncio.AbstractEventLoop, path: str) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path)
        with pytest.raises(ConnectionRefusedError):
            run(loop, loop.create_unix_connection(asyncio.Protocol, path))


def test_a_path_that_is_not_there_is_not_found(loop: asyncio.AbstractEventLoop, path: str) -> None:
    with pytest.raises(FileNotFoundError):
        run(loop, loop.create_unix_connection(asyncio.Protocol, path))


@pytest.mark.covers("EventLoop.create_unix_connection(sock)")
async def test_a_connected_socket_is_taken_over(loop: asyncio.AbstractEventLoop) -> None:
    ours, peer = socket.socketpair()
    with peer:
        transport, protocol = await loop.create_unix_connection(Greeter, sock=ours)
        assert isinstance(protocol, Greeter)
        assert ours.gettimeout() == 0.0
        peer.setblocking(False)
        assert await loop.sock_recv(peer, 100) == b"hello"
        assert transport.is_closing()
        assert await loop.sock_recv(peer, 100) == b""


async def test_an_accepted_unix_socket_becomes_a_connection(loop: asyncio.AbstractEventLoop) -> None:
    ours, peer = socket.socketpair()
    with peer:
        await loop.connect_accepted_socket(Greeter, ours)
        peer.setblocking(False)
        assert await loop.sock_recv(peer, 100) == b"hello"
        assert await loop.sock_recv(peer, 100) == b""


@pytest.mark.covers("EventLoop.create_unix_server(start_serving)")
async def test_start_serving_may_wait(loop: asyncio.AbstractEventLoop, path: str) -> None:
    server = await loop.create_unix_server(Greeter, path, start_serving=False)
    with pytest.raises(ConnectionRefusedError):
        await greeting(path)
    await server.start_serving()
    assert await greeting(path) == b"hello"
    await stop(server)


@pytest.mark.parametrize("family", ["AF_INET", "datagram"])
def test_only_unix_streams_are_taken(loop: asyncio.AbstractEventLoop, family: str) -> None:
    sock = socket.socket() if family == "AF_INET" else socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with sock:
        with pytest.raises(ValueError, match="A UNIX Domain Stream Socket was expected"):
            run(loop, loop.create_unix_server(Greeter, sock=sock))
        with pytest.raises(ValueError, match="A UNIX Domain Stream Socket was expected"):
            run(loop, loop.create_unix_connection(Greeter, sock=sock))


def test_a_path_and_a_socket_exclude_each_other(loop: asyncio.AbstractEventLoop) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        with pytest.raises(ValueError, match="path and sock can not be specified at the same time"):
            run(loop, loop.create_unix_server(Greeter, "x", sock=sock))
        with pytest.raises(ValueError, match="path and sock can not be specified at the same time"):
            run(loop, loop.create_unix_connection(Greeter, "x", sock=sock))


def test_one_of_path_and_socket_is_needed(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(ValueError, match="path was not specified, and no sock specified"):
        run(loop, loop.create_unix_server(Greeter))
    with pytest.raises(ValueError, match="no path and sock were specified"):
        run(loop, loop.create_unix_connection(Greeter))


@pytest.mark.parametrize(
    "option", [{"server_hostname": "x"}, {"ssl_handshake_timeout": 1.0}, {"ssl_shutdown_timeout": 1.0}]
)
def test_what_needs_tls_is_refused_without(loop: asyncio.AbstractEventLoop, option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(ValueError, match=f"^{name} is only meaningful with ssl$"):
        run(loop, loop.create_unix_connection(Greeter, "x", **option))
    if name != "server_hostname":
        with pytest.raises(ValueError, match=f"^{name} is only meaningful with ssl$"):
            run(loop, loop.create_unix_server(Greeter, "x", **option))


def test_tls_over_a_path_needs_a_name_to_check(loop: asyncio.AbstractEventLoop) -> None:
    with pytest.raises(ValueError, match="you have to pass server_hostname when using ssl"):
        run(loop, loop.create_unix_connection(Greeter, "x", ssl=True))
    with pytest.raises(TypeError, match="ssl argument must be an SSLContext or None"):
        run(loop, loop.create_unix_server(Greeter, "x", ssl=True))
