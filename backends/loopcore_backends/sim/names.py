"""Names: getaddrinfo(3) and its relatives over the hosts of the simulation."""

import socket
from typing import TYPE_CHECKING, Any

from loopcore_backends.sim.network import BROADCAST
from loopcore_backends.sim.replacing import Replacement
from loopcore_backends.sim.socket_base import full_address

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World

_KINDS = ((socket.SOCK_STREAM, socket.IPPROTO_TCP), (socket.SOCK_DGRAM, socket.IPPROTO_UDP), (socket.SOCK_RAW, 0))
_EAI_ADDRFAMILY = getattr(socket, "EAI_ADDRFAMILY", -9)


def unknown(name: object) -> socket.gaierror:
    """Return the error for a name that no host has."""
    return socket.gaierror(socket.EAI_NONAME, f"Name or service not known ({name!r} is no host of the simulation)")


def numeric(world: "World", family: int, address: Any) -> Any:
    """Return `address` with the host's name resolved. Raises TypeError, OverflowError and gaierror as sockets do."""
    if family == socket.AF_UNIX:
        if not isinstance(address, (str, bytes, bytearray)):
            raise TypeError(f"a bytes-like object is required, not '{type(address).__name__}'")
        return address
    if not isinstance(address, tuple):
        raise TypeError(f"AF_INET address must be tuple, not {type(address).__name__}")
    if not 2 <= len(address) <= (4 if family == socket.AF_INET6 else 2):
        raise TypeError("AF_INET address must be a pair (host, port)")
    host, port = address[0], address[1]
    if not isinstance(port, int):
        raise TypeError("an integer is required")
    if not 0 <= port <= 65_535:
        raise OverflowError("port must be 0-65535.")
    name = host.decode() if isinstance(host, (bytes, bytearray)) else host
    if "\0" in name:
        raise TypeError("host name must not contain null character")
    if name == "":
        return full_address(family, "::" if family == socket.AF_INET6 else "0.0.0.0", port)
    if name == "<broadcast>":
        return full_address(family, BROADCAST, port)
    for found in world.network.addresses_of(name, world.host) or ():
        if (":" in found) == (family == socket.AF_INET6):
            return full_address(family, found, port)
    raise unknown(name)


def replacements(world: "World") -> list[Replacement]:
    """Return what stands in for the functions that resolve names."""

    def getaddrinfo(
        host: Any,
        port: Any,
        family: int = 0,
        type: int = 0,  # noqa: A002
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[Any, ...]]:
        if host is None and port is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        name = host.decode() if isinstance(host, (bytes, bytearray)) else host
        is_numeric = False
        if name is None:
            found: list[str] | None = ["0.0.0.0", "::"] if flags & socket.AI_PASSIVE else ["127.0.0.1", "::1"]
        else:
            found = world.network.addresses_of(name.rstrip(".") if len(name) > 1 else name, world.host)
            is_numeric = found is not None and len(found) == 1 and found[0] == name
            if flags & socket.AI_NUMERICHOST and not is_numeric:
                raise unknown(name)
        if not found:
            raise unknown(name)
        number = port_number(port)
        entries: list[tuple[Any, ...]] = []
        for address in found:
            own = socket.AF_INET6 if ":" in address else socket.AF_INET
            if family not in (0, own):
                continue
            for kind, protocol in _KINDS:
                if type in (0, kind) and proto in (0, protocol):
                    canonical = (name or "") if flags & socket.AI_CANONNAME and not entries else ""
                    target = full_address(own, address, number)
                    entries.append((own, kind, protocol, canonical, target))
        if not entries:
            if name is not None and is_numeric:
                raise socket.gaierror(_EAI_ADDRFAMILY, "Address family for hostname not supported")
            raise socket.gaierror(socket.EAI_FAMILY, "ai_family not supported")
        return entries

    def gethostbyname(name: str) -> str:
        for entry in getaddrinfo(name, 0, socket.AF_INET, socket.SOCK_STREAM):
            return str(entry[4][0])
        raise unknown(name)

    def gethostbyname_ex(name: str) -> tuple[str, list[str], list[str]]:
        return name, [], [gethostbyname(name)]

    def gethostbyaddr(name: str) -> tuple[str, list[str], list[str]]:
        address = gethostbyname(name)
        return world.network.host_at(address, world.host).name, [], [address]

    def getnameinfo(sockaddr: Any, flags: int) -> tuple[str, str]:
        name = str(sockaddr[0])
        if not flags & socket.NI_NUMERICHOST:
            try:
                name = world.network.host_at(name, world.host).name
            except OSError:
                if flags & socket.NI_NAMEREQD:
                    raise unknown(name) from None
        return name, str(sockaddr[1])

    return [
        (socket, "getaddrinfo", getaddrinfo),
        (socket, "gethostbyname", gethostbyname),
        (socket, "gethostbyname_ex", gethostbyname_ex),
        (socket, "gethostbyaddr", gethostbyaddr),
        (socket, "getnameinfo", getnameinfo),
        (socket, "gethostname", lambda: world.host.name),
        (socket, "getfqdn", lambda name="": name or world.host.name),
    ]


def port_number(port: Any) -> int:
    """Return the number of a port that is given as a number, its digits, or the name of a service."""
    if port is None:
        return 0
    if isinstance(port, (bytes, bytearray)):
        port = port.decode()
    if isinstance(port, str):
        if not port:
            return 0
        try:
            port = int(port)
        except ValueError:
            try:
                return socket.getservbyname(port)
            except OSError:
                raise socket.gaierror(socket.EAI_SERVICE, "Servname not supported for ai_socktype") from None
    return int(port)
