"""Unix sockets: connecting to a path and listening on one.

A path is str, bytes or path-like. A path that begins with a NUL is abstract (unix(7)): it names no file, so
nothing is removed before or after. A listening socket leaves its file behind when it is closed: a stale file
is removed before binding, and ours after closing, unless it has been replaced by another meanwhile.
"""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable
from typing import TypeAlias

from loopcore.endpoints.listen import serve
from loopcore.endpoints.needs import Connection, EndpointHost, ProtocolFactory, ServerFactory
from loopcore.endpoints.opener import StreamOpener
from loopcore.endpoints.tls import SslArgument, refuse_bool, tls_settings
from loopcore.log import logger

UnixPath: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class UnixEndpoints:
    """`create_unix_connection` and `create_unix_server`. Thread: the loop's own. Errors are asyncio's.

    Both raise NotImplementedError if the socket module has no Unix sockets, as asyncio's loops do on Windows.
    """

    def __init__(self, host: EndpointHost, opener: StreamOpener, make_server: ServerFactory) -> None:
        self._host = host
        self._opener = opener
        self._make_server = make_server

    async def create_unix_connection(
        self,
        protocol_factory: ProtocolFactory,
        path: UnixPath | None = None,
        *,
        ssl: SslArgument = None,
        sock: socket.socket | None = None,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> Connection:
        """Connect to `path`, or take over a connected `sock`; return the transport and the protocol."""
        _check_platform()
        if ssl and server_hostname is None:
            raise ValueError("you have to pass server_hostname when using ssl")
        tls = tls_settings(
            ssl,
            server_hostname=server_hostname,
            handshake_timeout=ssl_handshake_timeout,
            shutdown_timeout=ssl_shutdown_timeout,
        )
        ours = path is not None
        if path is not None:
            if sock is not None:
                raise ValueError("path and sock can not be specified at the same time")
            sock = await self._connect(os.fspath(path))
        elif sock is None:
            raise ValueError("no path and sock were specified")
        else:
            _require_unix_stream(sock)
        return await self._opener.open(sock, protocol_factory, tls, ours=ours)

    async def create_unix_server(
        self,
        protocol_factory: ProtocolFactory,
        path: UnixPath | None = None,
        *,
        sock: socket.socket | None = None,
        backlog: int = 100,
        ssl: SslArgument = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        start_serving: bool = True,
        cleanup_socket: bool,
    ) -> asyncio.AbstractServer:
        """Serve on `path`, or on a bound `sock`; with `cleanup_socket`, remove its file when the server closes."""
        _check_platform()
        refuse_bool(ssl)
        tls = tls_settings(
            ssl,
            server_side=True,
            handshake_timeout=ssl_handshake_timeout,
            shutdown_timeout=ssl_shutdown_timeout,
        )
        if path is not None:
            if sock is not None:
                raise ValueError("path and sock can not be specified at the same time")
            sock = _bind(os.fspath(path))
        elif sock is None:
            raise ValueError("path was not specified, and no sock specified")
        else:
            _require_unix_stream(sock)
        after_close = _removal_of(sock.getsockname()) if cleanup_socket else None
        sock.setblocking(False)
        server = self._make_server([sock], protocol_factory, tls=tls, backlog=backlog, after_close=after_close)
        await serve(server, start_serving)
        return server

    async def _connect(self, path: str | bytes) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0)
        try:
            sock.setblocking(False)
            await self._host.sock_connect(sock, path)
        except BaseException:
            sock.close()
            raise
        return sock


def _check_platform() -> None:
    if not hasattr(socket, "AF_UNIX"):
        raise NotImplementedError(
            "Python has no Unix sockets on this platform (socket.AF_UNIX is missing); "
            "use create_server and create_connection on 127.0.0.1"
        )


def _require_unix_stream(sock: socket.socket) -> None:
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
        raise ValueError(f"A UNIX Domain Stream Socket was expected, got {sock!r}")


def names_a_file(path: str | bytes) -> bool:
    """Return whether binding to `path` creates a file; an abstract name (unix(7)) does not."""
    return path[:1] not in ("", b"", "\0", b"\0")


def _bind(path: str | bytes) -> socket.socket:
    """Return a socket bound to `path`, after removing the socket that an earlier server left there."""
    if names_a_file(path):
        remove_stale(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
    except OSError as exc:
        sock.close()
        if exc.errno == errno.EADDRINUSE:
            raise OSError(errno.EADDRINUSE, f"Address {path!r} is already in use") from None
        raise
    except BaseException:
        sock.close()
        raise
    return sock


def remove_stale(path: str | bytes) -> None:
    """Remove the socket that a former owner of `path` left there; any other file stays."""
    try:
        if stat.S_ISSOCK(os.stat(path).st_mode):
            os.remove(path)
    except FileNotFoundError:
        pass
    except OSError as exc:
        # A directory may allow creating a socket and nothing else; bind(2) will report it.
        logger.error("Unable to check or remove stale UNIX socket %r: %r", path, exc)


def _removal_of(path: str | bytes) -> Callable[[], None] | None:
    """Return a function that removes the file at `path` if it is still the same file; None if there is no file."""
    if not names_a_file(path):
        return None
    try:
        inode = os.stat(path).st_ino
    except OSError:
        return None

    def remove() -> None:
        try:
            if os.stat(path).st_ino == inode:
                os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as exc:
            logger.error("Unable to clean up listening UNIX socket %r: %r", path, exc)

    return remove
