"""Literal addresses: which hosts are numbers already, and what getaddrinfo(3) would say of them.

Only what inet_pton(3) takes counts, which the C library reads in one way on every platform. Scopes written into the
host ("fe80::1%lo") and old spellings ("127.1") do not; they are for getaddrinfo(3), which needs no name server either
(see `loopcore.services.resolver`).
"""

import socket
from socket import AF_INET, AF_INET6, AF_UNSPEC, SOCK_DGRAM, SOCK_STREAM
from typing import Any, TypeAlias

AddressInfo: TypeAlias = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]

_KINDS = {int(SOCK_STREAM): (SOCK_STREAM, socket.IPPROTO_TCP), int(SOCK_DGRAM): (SOCK_DGRAM, socket.IPPROTO_UDP)}


def numeric_host(host: Any, family: int) -> tuple[socket.AddressFamily, str] | None:
    """Return family and usual spelling of `host` if it is a number of `family` (0 for any), else None."""
    if isinstance(host, bytes):
        host = host.decode("latin-1")
    elif not isinstance(host, str):
        return None
    try:
        if ":" in host:
            if family in (AF_UNSPEC, AF_INET6):
                return AF_INET6, socket.inet_ntop(AF_INET6, socket.inet_pton(AF_INET6, host))
        elif family in (AF_UNSPEC, AF_INET):
            socket.inet_pton(AF_INET, host)
            return AF_INET, host  # there is only one spelling
    except (OSError, ValueError):
        pass
    return None


def numeric_info(address: Any, family: int, kind: int, proto: int) -> AddressInfo | None:
    """Return the one row of getaddrinfo(3) for a socket of `kind` at or to `address`, or None if it must be asked.

    `address` is host and port, for IPv6 perhaps followed by flow information and scope. None also for a port that
    is no number, and for kinds of sockets that have more than one protocol, or another than `proto`.
    """
    known = _KINDS.get(kind)
    if known is None or proto not in (0, known[1]):
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
    where = (text, number) if found == AF_INET else (text, number, *address[2:], 0, 0)[:4]
    return found, known[0], known[1], "", where
