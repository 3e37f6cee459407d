"""The Python twin of `addresses.pxd`, for the pure build: same names, same contract."""

from socket import AF_INET, inet_pton
from typing import Any

_FAMILY = int(AF_INET)


def is_ipv4(host: Any) -> bool:
    """Return whether `host` is a str with an IPv4 address in the one spelling that inet_pton(3) accepts."""
    if type(host) is not str:
        return False
    try:
        inet_pton(_FAMILY, host)
    except (OSError, ValueError):
        return False
    return True


def is_port(port: Any) -> bool:
    """Return whether `port` is an int from 0 to 65535."""
    return type(port) is int and 0 <= port <= 0xFFFF
