"""Addresses: convert what `socket.connect` takes to the kernel's struct sockaddr, and back.

The family follows from the address: a host with a colon is IPv6, any other host IPv4, text or bytes is an AF_UNIX
path, two integers are AF_VSOCK. Hosts are numeric. Sources: ip(7), ipv6(7), unix(7), vsock(7).
"""

import errno
import os
import socket
import struct
from typing import Any, Final

_UNIX_LIMIT: Final = 108
_VSOCK: Final = getattr(socket, "AF_VSOCK", 40)


def encode(address: Any) -> bytes:
    """Return `address` as a struct sockaddr. Raises OSError for an invalid one, as the socket module does."""
    if isinstance(address, (str, bytes, bytearray, memoryview)):
        return _encode_path(os.fsencode(address) if isinstance(address, str) else bytes(address))
    if isinstance(address, tuple) and len(address) >= 2:
        host, port = address[:2]
        if isinstance(host, int):
            return struct.pack("=HHIIB3x", _VSOCK, 0, port & 0xFFFFFFFF, host & 0xFFFFFFFF, 0)
        if not 0 <= port <= 0xFFFF:
            raise OverflowError("the port of an address must be 0-65535")
        if ":" in host:
            return _encode_six(host, port, *address[2:4])
        if host in ("", "<broadcast>"):
            host = "255.255.255.255" if host else "0.0.0.0"
        return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)
    raise OSError(errno.EAFNOSUPPORT, f"the uring backend does not support addresses like {address!r}")


def _encode_six(host: str, port: int, flow: int = 0, scope: int = 0) -> bytes:
    host, _, zone = host.partition("%")
    if zone:
        scope = int(zone) if zone.isdigit() else socket.if_nametoindex(zone)
    packed = socket.inet_pton(socket.AF_INET6, host)
    return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, flow) + packed + struct.pack("=I", scope)


def _encode_path(path: bytes) -> bytes:
    # A path ends with a zero byte; an abstract name begins with one, and ends where the address ends.
    ending = b"" if path[:1] in (b"", b"\0") else b"\0"
    if len(path) + len(ending) > _UNIX_LIMIT:
        raise OSError("AF_UNIX path too long")
    return struct.pack("=H", socket.AF_UNIX) + path + ending


def decode_internet(raw: bytes) -> Any:
    """Return (host, port), for IPv6 also flow label and scope; None for any other family."""
    family = int.from_bytes(raw[:2], "little")
    if family == socket.AF_INET:
        return socket.inet_ntoa(raw[4:8]), int.from_bytes(raw[2:4], "big")
    if family == socket.AF_INET6:
        port, flow = struct.unpack_from("!HI", raw, 2)
        scope = int.from_bytes(raw[24:28], "little")
        return socket.inet_ntop(socket.AF_INET6, raw[8:24]), port, flow, scope
    return None


def decode(raw: bytes) -> Any:
    """Return the address in `raw`, a struct sockaddr, in the socket module's form."""
    if len(raw) <= 2:
        return None  # the socket has no name
    known = decode_internet(raw)
    if known is not None:
        return known
    if int.from_bytes(raw[:2], "little") == socket.AF_UNIX:
        path = raw[2:]
        return path if path[:1] == b"\0" else os.fsdecode(path.split(b"\0", 1)[0])
    return int.from_bytes(raw[:2], "little"), raw[2:]
