"""Errors of overlapped calls translated to Winsock's, so that a program gets the ones it knows from other loops.

The port reports the kernel's codes where socket calls report Winsock's: a refused connection is 1225 there and
10061 here. The pairs are those of Microsoft's documentation ("System Error Codes", "Windows Sockets Error Codes").
"""

import errno
from typing import Final

OPERATION_ABORTED: Final = 995
NETNAME_DELETED: Final = 64

WINSOCK: Final = {
    NETNAME_DELETED: 10054,  # the peer has reset the connection
    OPERATION_ABORTED: 10054,  # not cancelled by us: the connection was aborted below
    121: 10060,  # ERROR_SEM_TIMEOUT
    1225: 10061,  # ERROR_CONNECTION_REFUSED
    1229: 10057,  # ERROR_CONNECTION_INVALID
    1231: 10051,  # ERROR_NETWORK_UNREACHABLE
    1232: 10065,  # ERROR_HOST_UNREACHABLE
    1234: 10054,  # ERROR_PORT_UNREACHABLE, the answer to a datagram sent before
    1236: 10053,  # ERROR_CONNECTION_ABORTED
}


CLOSED: Final = frozenset({6, 10038})
"""ERROR_INVALID_HANDLE, WSAENOTSOCK: the errors for a number that was closed."""


def translated(exc: OSError) -> OSError:
    """Return `exc`, or Winsock's equivalent; EBADF for a number that was closed, as the port requires."""
    given: int = getattr(exc, "winerror", None) or 0
    if given in CLOSED:
        return OSError(errno.EBADF, exc.strerror)
    code = WINSOCK.get(given)
    if code is None:
        return exc
    return OSError(None, exc.strerror, None, code)


def cancelled() -> OSError:
    """Return the terminal result of an operation that was cancelled in time."""
    return OSError(errno.ECANCELED, "the operation was cancelled")
