"""Listening on TCP: from host and port to bound sockets and a server.

One socket for every address that the hosts resolve to, IPv4 and IPv6 separately. If anything fails or is cancelled, no
socket that was created here stays open.
"""

import asyncio
import errno
import os
import socket
import sys
from collections.abc import Iterable, Sequence

from loopcore.endpoints.addresses import resolve
from loopcore.endpoints.connect import bind_error
from loopcore.endpoints.needs import EndpointHost, ProtocolFactory, ServerFactory
from loopcore.endpoints.opener import require_stream
from loopcore.endpoints.tls import SslArgument, refuse_bool, refuse_tls_socket, tls_settings
from loopcore.log import logger
from loopcore.services.literals import AddressInfo, HostName, Port


async def serve(server: asyncio.AbstractServer, start_serving: bool) -> None:
    """Start the server if `start_serving` is true; close it if it cannot start."""
    if not start_serving:
        return
    try:
        await server.start_serving()
    except BaseException:
        server.close()
        raise


class Listener:
    """`create_server`. Thread: the loop's own. Errors and their texts are asyncio's."""

    def __init__(self, host: EndpointHost, make_server: ServerFactory) -> None:
        self._host = host
        self._make_server = make_server

    async def create_server(
        self,
        protocol_factory: ProtocolFactory,
        host: "HostName | Iterable[HostName]" = None,
        port: Port = None,
        *,
        family: int = socket.AF_UNSPEC,
        flags: int = socket.AI_PASSIVE,
        sock: socket.socket | None = None,
        backlog: int = 100,
        ssl: SslArgument = None,
        reuse_address: bool | None = None,
        reuse_port: bool | None = None,
        keep_alive: bool | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        start_serving: bool = True,
    ) -> asyncio.AbstractServer:
        """Serve on every address of `host`, or on a bound `sock`.

        `host` is a name or an address, a sequence of them, or None or '' for all interfaces. `keep_alive`
        is accepted on every Python (in asyncio since 3.13).
        """
        refuse_bool(ssl)
        tls = tls_settings(
            ssl,
            server_side=True,
            handshake_timeout=ssl_handshake_timeout,
            shutdown_timeout=ssl_shutdown_timeout,
        )
        if sock is not None:
            refuse_tls_socket(sock)
        if host is not None or port is not None:
            if sock is not None:
                raise ValueError("host/port and sock can not be specified at the same time")
            if reuse_address is None:
                reuse_address = os.name == "posix" and sys.platform != "cygwin"
            infos = await self._look_up(_hosts(host), port, family, flags)
            sockets = self._bind(infos, _options(reuse_address, reuse_port, keep_alive))
        elif sock is None:
            raise ValueError("Neither host/port nor sock were specified")
        else:
            require_stream(sock)
            sockets = [sock]
        for each in sockets:
            each.setblocking(False)
        server = self._make_server(sockets, protocol_factory, tls=tls, backlog=backlog)
        await serve(server, start_serving)
        if self._host.get_debug():
            logger.info("%r is serving", server)
        return server

    async def _look_up(self, hosts: Sequence[HostName], port: Port, family: int, flags: int) -> list[AddressInfo]:
        """Return the rows of all hosts, each row once, in the order of the hosts."""
        look_ups = (resolve(self._host, (host, port), family=family, flags=flags) for host in hosts)
        found = await asyncio.gather(*look_ups)
        for host, infos in zip(hosts, found, strict=True):
            if not infos:
                raise OSError(f"getaddrinfo({host!r}) returned empty list")
        return list(dict.fromkeys(info for infos in found for info in infos))

    def _bind(self, infos: Iterable[AddressInfo], options: Iterable[tuple[int, int]]) -> list[socket.socket]:
        """Return one bound socket for every address that this machine has, at least one. Raises OSError."""
        sockets: list[socket.socket] = []
        try:
            for family, kind, proto, _, address in infos:
                try:
                    sock = socket.socket(family, kind, proto)
                except OSError:
                    # The name has an address of a family that this machine does not support.
                    if self._host.get_debug():
                        text = "create_server() failed to create socket.socket(%r, %r, %r)"
                        logger.warning(text, family, kind, proto, exc_info=True)
                    continue
                sockets.append(sock)
                _set_options(sock, options)
                try:
                    sock.bind(address)
                except OSError as exc:
                    error = bind_error(exc, address)
                    if exc.errno != errno.EADDRNOTAVAIL:
                        raise error from None
                    # Most likely the family is disabled on this machine (bpo-30945).
                    sockets.pop().close()
                    if self._host.get_debug():
                        logger.warning("%s", error.strerror)
            if not sockets:
                raise OSError(f"could not bind on any address out of {[info[4] for info in infos]!r}")
        except BaseException:
            for sock in sockets:
                sock.close()
            raise
        return sockets


def _hosts(host: "HostName | Iterable[HostName]") -> list[HostName]:
    if host == "":
        return [None]
    if isinstance(host, str | bytes) or not isinstance(host, Iterable):
        return [host]
    return list(host)


def _options(reuse_address: bool, reuse_port: bool | None, keep_alive: bool | None) -> list[tuple[int, int]]:
    """Return the options to enable, each by level and number."""
    wanted = []
    if reuse_address:
        wanted.append((socket.SOL_SOCKET, socket.SO_REUSEADDR))
    if reuse_port:
        if not hasattr(socket, "SO_REUSEPORT"):
            raise ValueError("reuse_port not supported by socket module")
        wanted.append((socket.SOL_SOCKET, socket.SO_REUSEPORT))
    if keep_alive:
        wanted.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE))
    return wanted


def _set_options(sock: socket.socket, options: Iterable[tuple[int, int]]) -> None:
    for level, option in options:
        try:
            sock.setsockopt(level, option, 1)
        except OSError:
            if option != getattr(socket, "SO_REUSEPORT", None):
                raise
            raise ValueError(
                "reuse_port not supported by socket module, SO_REUSEPORT defined but not implemented."
            ) from None
    if sock.family == socket.AF_INET6 and hasattr(socket, "IPPROTO_IPV6"):
        # Linux would accept IPv4 on this socket too, and then the IPv4 address could not be bound separately.
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
