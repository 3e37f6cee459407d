"""Where a server is: TCP, TLS over TCP, or a Unix socket. One set of options for server, client and load.

Nothing above this module knows which of the three it is: streams are streams.
"""

import argparse
import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from messages import MAX_LINE

P = TypeVar("P", bound=asyncio.BaseProtocol)

HOST = "127.0.0.1"
PORT = 7000

Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


@dataclass(frozen=True, slots=True)
class Address:
    """`path` is a Unix socket's; without it `host` and `port` count. `tls` is of the side that uses the address."""

    host: str = HOST
    port: int = PORT
    path: str | None = None
    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return self.path
        return f"{self.host}:{self.port}" + (" (TLS)" if self.tls else "")


async def listen(address: Address, accept: Accept) -> asyncio.Server:
    """Listen; `accept` gets the streams of each connection. Raises OSError."""
    limit = MAX_LINE - 1  # a StreamReader's does not count the newline, ours does
    if address.path is not None:
        return await asyncio.start_unix_server(accept, address.path, limit=limit)
    return await asyncio.start_server(accept, address.host, address.port, limit=limit, ssl=address.tls, backlog=1000)


def bound(address: Address, server: asyncio.Server) -> Address:
    """Return `address` with the port that `server` got, if any would do."""
    if address.path is not None:
        return address
    host, port = server.sockets[0].getsockname()[:2]
    return Address(str(host), int(port), tls=address.tls)


async def connect(
    address: Address, receive_buffer_bytes: int | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect. Raises OSError, of which a certificate that is not trusted is one.

    `receive_buffer_bytes` makes the kernel hold less for us: we are a device far away, and slow.
    """
    reader = asyncio.StreamReader(limit=MAX_LINE)
    transport, protocol = await connect_protocol(
        address, lambda: asyncio.StreamReaderProtocol(reader), receive_buffer_bytes
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())


async def connect_protocol(
    address: Address, factory: Callable[[], P], receive_buffer_bytes: int | None = None
) -> tuple[asyncio.Transport, P]:
    """Connect a protocol, without streams. Raises OSError."""
    loop = asyncio.get_running_loop()
    sock = await _connected(address, receive_buffer_bytes)
    name = address.host if address.tls else None
    return await loop.create_connection(factory, sock=sock, ssl=address.tls, server_hostname=name)


async def _connected(address: Address, receive_buffer_bytes: int | None) -> socket.socket:
    """Return a connected socket: the first that connects, of the addresses that a name stands for."""
    loop = asyncio.get_running_loop()
    candidates: list[tuple[int, object]]
    if address.path is not None:
        candidates = [(socket.AF_UNIX, address.path)]
    else:
        found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        candidates = [(family, where) for family, _, _, _, where in found]
    errors = []
    for family, where in candidates:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if receive_buffer_bytes is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
            await loop.sock_connect(sock, where)  # type: ignore[arg-type]
        except OSError as exc:
            sock.close()
            errors.append(exc)
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise errors[0]


def add_server_options(parser: argparse.ArgumentParser) -> None:
    """Add what `server_address` asks for."""
    _add_options(parser, "address to listen on (default: %(default)s)", "0 means any free one (default: %(default)s)")
    parser.add_argument("--cert", metavar="FILE", help="speak TLS, with this certificate chain (PEM)")
    parser.add_argument("--key", metavar="FILE", help="its key, if it is not in the same file")


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """Add what `client_address` asks for."""
    _add_options(parser, "where the server is (default: %(default)s)", "default: %(default)s")
    parser.add_argument("--tls", action="store_true", help="speak TLS, and trust whom the system trusts")
    parser.add_argument("--ca", metavar="FILE", help="speak TLS, and trust this authority or certificate (PEM)")


def _add_options(parser: argparse.ArgumentParser, host: str, port: str) -> None:
    parser.add_argument("--host", default=HOST, help=host)
    parser.add_argument("--port", type=int, default=PORT, help=port)
    parser.add_argument("--unix", metavar="PATH", help="a Unix socket, in place of host and port")


def server_address(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Address:
    """Return where `options` say to listen. Ends the program if they cannot be met."""
    tls = None
    if options.cert is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            tls.load_cert_chain(options.cert, options.key)
        except OSError as exc:
            parser.error(f"--cert: no certificate with its key can be read from {options.cert}: {exc}")
    elif options.key is not None:
        parser.error("--key needs --cert")
    return _address(parser, options, tls)


def client_address(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Address:
    """Return where `options` say the server is. Ends the program if they cannot be met."""
    tls = None
    if options.tls or options.ca is not None:
        try:
            tls = ssl.create_default_context(cafile=options.ca)
        except OSError as exc:
            parser.error(f"--ca: no certificate can be read from {options.ca}: {exc}")
    return _address(parser, options, tls)


def _address(parser: argparse.ArgumentParser, options: argparse.Namespace, tls: ssl.SSLContext | None) -> Address:
    if options.unix is None:
        if not 0 <= options.port <= 65535:
            parser.error(f"--port: {options.port} is no port; they go from 0 to 65535")
        return Address(options.host, options.port, tls=tls)
    if not hasattr(socket, "AF_UNIX"):
        parser.error("--unix: this system has no Unix sockets; use --host and --port")
    if tls is not None:
        parser.error("--unix: a Unix socket does not leave the machine, so TLS is not spoken over it")
    return Address(path=str(Path(options.unix)))
