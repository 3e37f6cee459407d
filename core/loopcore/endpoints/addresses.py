"""Addresses: from what the program names to rows of getaddrinfo(3), in the order they will be tried."""

import socket
from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import Any

from loopcore.endpoints.needs import AddressInfo, NameResolver

_FAMILIES = (socket.AF_INET, socket.AF_INET6) if socket.has_ipv6 else (socket.AF_INET,)


_PROTOCOLS: dict[int, int] = {socket.SOCK_STREAM: socket.IPPROTO_TCP, socket.SOCK_DGRAM: socket.IPPROTO_UDP}


def numeric_info(address: Any, family: int, proto: int, kind: int = socket.SOCK_STREAM) -> AddressInfo | None:
    """Return the row of an address that is numeric already, None if it must be looked up.

    So a literal address costs neither a thread nor a wait. `address` is host and port, for IPv6 perhaps
    followed by flow information and scope. None also for a port given by name and for a scope written
    into the host ("fe80::1%lo"), which inet_pton(3) does not take.
    """
    host, port = address[:2]
    if host is None or proto not in (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP):
        return None
    try:
        number = 0 if port in (None, "", b"") else int(port)
    except (TypeError, ValueError):
        return None
    if isinstance(host, bytes):
        host = host.decode("idna")
    if "%" in host:
        return None
    for candidate in _FAMILIES if family == socket.AF_UNSPEC else (family,):
        try:
            socket.inet_pton(candidate, host)
        except OSError:
            continue
        row: tuple[Any, ...] = (host, number)
        if candidate == socket.AF_INET6:
            row += (*address[2:], 0, 0)[:2]
        return candidate, kind, _PROTOCOLS[kind], "", row
    return None


async def resolve(
    resolver: NameResolver,
    address: Any,
    *,
    family: int = 0,
    kind: int = socket.SOCK_STREAM,
    proto: int = 0,
    flags: int = 0,
) -> list[AddressInfo]:
    """Return the rows for a socket of `kind` at or to `address`; may be empty. Raises socket.gaierror."""
    numeric = numeric_info(address, family, proto, kind)
    if numeric is not None:
        return [numeric]
    host, port = address[:2]
    found: list[AddressInfo] = await resolver.getaddrinfo(
        host, port, family=family, type=kind, proto=proto, flags=flags
    )
    return found


def interleave(infos: Iterable[AddressInfo], first_family_count: int = 1) -> list[AddressInfo]:
    """Reorder so that address families alternate (RFC 8305, section 4).

    The family of the first row leads with `first_family_count` rows; within a family the order is kept.
    """
    families: dict[int, list[AddressInfo]] = {}
    for info in infos:
        families.setdefault(info[0], []).append(info)
    lists = list(families.values())
    lead = lists[0][: first_family_count - 1] if lists else []
    if lead:
        lists[0] = lists[0][len(lead) :]
    return lead + [info for info in chain.from_iterable(zip_longest(*lists)) if info is not None]
