"""Datagram endpoints: from addresses to a bound or connected socket, and its open transport.

The steps: look up both addresses, keep the families that both have, bind and connect a socket of the first one that
is available, and give it a transport and a protocol. A socket created here is closed if a step fails; a socket that
the program passed in remains the program's until a transport owns it.
"""

import socket
import sys
from typing import Any, TypeAlias

from loopcore.endpoints.addresses import resolve
from loopcore.endpoints.needs import DatagramConnection, DatagramTransportFactory, EndpointHost, ProtocolFactory
from loopcore.endpoints.unix import names_a_file, remove_stale
from loopcore.log import logger

Candidate: TypeAlias = tuple[int, int, Any, Any]
"""Family, protocol, local and remote address of a socket to try; an address that was not requested is None."""

_EXPECTED = (
    "A datagram socket was expected"
    if sys.version_info >= (3, 12, 2) or (3, 11, 8) <= sys.version_info < (3, 12)  # gh-114887
    else "A UDP Socket was expected"
)


class DatagramEndpoints:
    """`create_datagram_endpoint`. Thread: the loop's own. Errors and their texts are asyncio's."""

    def __init__(self, host: EndpointHost, make_transport: DatagramTransportFactory) -> None:
        self._host = host
        self._make_transport = make_transport

    async def create_datagram_endpoint(
        self,
        protocol_factory: ProtocolFactory,
        local_addr: Any = None,
        remote_addr: Any = None,
        *,
        family: int = 0,
        proto: int = 0,
        flags: int = 0,
        reuse_port: bool | None = None,
        allow_broadcast: bool | None = None,
        sock: socket.socket | None = None,
    ) -> DatagramConnection:
        """Bind to `local_addr`, connect to `remote_addr`, or take over `sock`; return the transport and the protocol.

        With `allow_broadcast` the socket is not connected, so that answers from addresses other than `remote_addr` are
        received.
        """
        ours = sock is None
        peer = None
        if sock is None:
            candidates = await self._candidates(local_addr, remote_addr, family=family, proto=proto, flags=flags)
            sock, peer = await self._open_any(candidates, reuse_port, allow_broadcast)
        else:
            _check_passed_in(
                sock,
                local_addr=local_addr,
                remote_addr=remote_addr,
                family=family,
                proto=proto,
                flags=flags,
                reuse_port=reuse_port,
                allow_broadcast=allow_broadcast,
            )
            self._host._transports.check_free(sock.fileno(), sock)
            sock.setblocking(False)
        transport, protocol = await self._open(sock, protocol_factory, peer, ours=ours)
        if self._host.get_debug():
            pair = (transport, protocol)
            logger.debug("Datagram endpoint local_addr=%r remote_addr=%r created: %r", local_addr, remote_addr, pair)
        return transport, protocol

    async def _open(
        self, sock: socket.socket, protocol_factory: ProtocolFactory, peer: Any, *, ours: bool
    ) -> DatagramConnection:
        try:
            protocol = protocol_factory()
            waiter = self._host.create_future()
            transport = self._make_transport(sock, protocol, peer, waiter=waiter)
        except BaseException:
            if ours:
                sock.close()
            raise
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    async def _candidates(
        self, local_addr: Any, remote_addr: Any, *, family: int, proto: int, flags: int
    ) -> list[Candidate]:
        """Return the possible sockets, in order of preference; at least one."""
        if not (local_addr or remote_addr):
            if family == 0:
                raise ValueError("unexpected address family")
            return [(family, proto, None, None)]
        if family == getattr(socket, "AF_UNIX", None):
            for path in (local_addr, remote_addr):
                if path is not None and not isinstance(path, str):
                    raise TypeError("string is expected")
            if local_addr and names_a_file(local_addr):
                remove_stale(local_addr)
            return [(family, proto, local_addr, remote_addr)]
        found: dict[tuple[int, int], list[Any]] = {}
        for index, address in enumerate((local_addr, remote_addr)):
            if address is None:
                continue
            if not (isinstance(address, tuple) and len(address) == 2):
                raise TypeError("2-tuple is expected")
            infos = await resolve(self._host, address, family=family, kind=socket.SOCK_DGRAM, proto=proto, flags=flags)
            if not infos:
                raise OSError("getaddrinfo() returned empty list")
            for info in infos:
                found.setdefault((info[0], info[2]), [None, None])[index] = info[4]
        candidates = [
            (*key, local, remote)
            for key, (local, remote) in found.items()
            if not (local_addr and local is None) and not (remote_addr and remote is None)
        ]
        if not candidates:
            raise ValueError("can not get address information")
        return candidates

    async def _open_any(
        self, candidates: list[Candidate], reuse_port: bool | None, allow_broadcast: bool | None
    ) -> tuple[socket.socket, Any]:
        """Return the first socket that can be opened and its remote address; if none can, raise the first OSError."""
        first: OSError | None = None
        for family, proto, local, remote in candidates:
            try:
                sock = socket.socket(family=family, type=socket.SOCK_DGRAM, proto=proto)
                try:
                    sock.setblocking(False)
                    if reuse_port:
                        _share_port(sock)
                    if allow_broadcast:
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
                    if local:
                        sock.bind(local)
                    if remote and not allow_broadcast:
                        await self._host.sock_connect(sock, remote)
                except BaseException:
                    sock.close()
                    raise
            except OSError as exc:
                first = exc if first is None else first
            else:
                return sock, remote or None
        assert first is not None, "there is at least one candidate"
        try:
            raise first
        finally:
            del first  # its traceback keeps this frame, and the frame would keep it


def _check_passed_in(sock: socket.socket, **modifiers: Any) -> None:
    if sock.type == socket.SOCK_STREAM:
        raise ValueError(f"{_EXPECTED}, got {sock!r}")
    given = ", ".join(f"{name}={value}" for name, value in modifiers.items() if value)
    if given:
        raise ValueError(f"socket modifier keyword arguments can not be used when sock is specified. ({given})")


def _share_port(sock: socket.socket) -> None:
    if not hasattr(socket, "SO_REUSEPORT"):
        raise ValueError("reuse_port not supported by socket module")
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    except OSError:
        raise ValueError(
            "reuse_port not supported by socket module, SO_REUSEPORT defined but not implemented."
        ) from None
