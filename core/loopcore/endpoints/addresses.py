"""Addresses: from host names and ports to rows of getaddrinfo(3), in the order in which they will be tried."""

import socket
from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import Any

from loopcore.endpoints.needs import EndpointHost
from loopcore.services.literals import AddressInfo, numeric_info


async def resolve(
    host: EndpointHost,
    address: Any,
    *,
    family: int = 0,
    kind: int = socket.SOCK_STREAM,
    proto: int = 0,
    flags: int = 0,
) -> list[AddressInfo]:
    """Return the rows for a socket of `kind` bound or connected to `address`; may be empty. Raises socket.gaierror.

    `address` is host and port, for IPv6 optionally followed by flow information and scope.
    """
    numeric = numeric_info(address, family, kind, proto)
    if numeric is not None:
        return [numeric]
    name, port = address[:2]
    return await host.getaddrinfo(name, port, family=family, type=kind, proto=proto, flags=flags)


def interleave(infos: Iterable[AddressInfo], first_family_count: int = 1) -> list[AddressInfo]:
    """Reorder the rows so that address families alternate (RFC 8305, section 4).

    The family of the first row comes first, with `first_family_count` rows; within a family the order is kept.
    """
    families: dict[int, list[AddressInfo]] = {}
    for info in infos:
        families.setdefault(info[0], []).append(info)
    lists = list(families.values())
    lead = lists[0][: first_family_count - 1] if lists else []
    if lead:
        lists[0] = lists[0][len(lead) :]
    return lead + [info for info in chain.from_iterable(zip_longest(*lists)) if info is not None]
