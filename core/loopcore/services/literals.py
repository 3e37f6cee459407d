"""Literal addresses: which hosts are already numeric, and what getaddrinfo(3) would return for them.

Only addresses that inet_pton(3) accepts count, which the C library reads in the same way on every platform. Scopes
written into the host ("fe80::1%lo") and old spellings ("127.1") do not; they are left to getaddrinfo(3), which needs no
name server for them either (see `loopcore.services.resolver`).
"""

import socket
from socket import AF_INET, AF_INET6, AF_UNSPEC, SOCK_DGRAM, SOCK_STREAM
from typing import Any, TypeAlias

HostName: TypeAlias = "bytes | str | None"
Port: TypeAlias = "bytes | str | int | None"
"""What getaddrinfo(3) looks up."""
AddressInfo: TypeAlias = tuple[
    socket.AddressFamily, socket.SocketKind, int, str, "tuple[str, int] | tuple[str, int, int, int]"
]

# Plain numbers: combining the flags of `socket`, which are enumerations, costs as much as the answer.
_NUMERIC_ONLY = int(socket.AI_NUMERICHOST | socket.AI_NUMERICSERV)
_RELEVANT_FLAGS = ~(_NUMERIC_ONLY | int(socket.AI_PASSIVE))
"""Flags that may change the answer for a literal address."""
_ANY = int(AF_UNSPEC)
_IPV4 = int(AF_INET)
_IPV6 = int(AF_INET6)
_FOUR = AF_INET
_inet_pton = socket.inet_pton

_KINDS = {int(SOCK_STREAM): (SOCK_STREAM, socket.IPPROTO_TCP), int(SOCK_DGRAM): (SOCK_DGRAM, socket.IPPROTO_UDP)}


def numeric_host(host: object, family: int) -> tuple[socket.AddressFamily, str] | None:
    """Return family and usual spelling of `host` if it is a numeric address of `family` (0 for any), else None."""
    if isinstance(host, bytes):
        host = host.decode("latin-1")
    elif not isinstance(host, str):
        return None
    try:
        if ":" in host:
            if family in (_ANY, _IPV6):
                return AF_INET6, socket.inet_ntop(AF_INET6, _inet_pton(_IPV6, host))
        elif family in (_ANY, _IPV4):
            _inet_pton(_IPV4, host)
            return _FOUR, host  # there is only one spelling
    except (OSError, ValueError):
        pass
    return None


def numeric_info(address: Any, family: int, kind: int, proto: int) -> AddressInfo | None:
    """Return the one row of getaddrinfo(3) for a socket of `kind` at or to `address`, or None if it is needed.

    `address` is host and port, for IPv6 perhaps followed by flow information and scope. None also if the port is not a
    number, and for kinds of sockets that have more than one protocol, or another than `proto`.
    """
    known = _KINDS.get(kind)
    if known is None or (proto != 0 and proto != known[1]):
        return None
    host, port = address[:2]
    try:
        number = port if type(port) is int else int(port or 0)
    except (TypeError, ValueError):
        return None
    numeric = numeric_host(host, family)
    if numeric is None:
        return None
    found, text = numeric
    where = (text, number) if found is _FOUR else (text, number, *address[2:], 0, 0)[:4]
    return found, known[0], known[1], "", where


def resolve_literal(
    host: HostName, port: Port, family: int, kind: int, proto: int, flags: int
) -> list[AddressInfo] | None:
    """Return the answer of `socket.getaddrinfo` if no name server is needed, else None. Does not block.

    A missing host (the wildcard or loopback addresses) counts as a literal.
    """
    numbers = isinstance(family, int) and isinstance(kind, int) and isinstance(proto, int) and isinstance(flags, int)
    if numbers and type(port) is int and 0 <= port <= 0xFFFF and (flags == 0 or not flags & _RELEVANT_FLAGS):
        row = numeric_info((host, port), family, kind, proto)
        if row is not None:
            return [row]
    if not numbers or flags & socket.AI_CANONNAME:
        return None  # left to the look-up, which raises; a canonical name may need one, depending on the C library
    try:
        return socket.getaddrinfo(host, port, family, kind, proto, flags | _NUMERIC_ONLY)  # type: ignore[return-value]
    except (OSError, ValueError, TypeError, OverflowError):
        return None
