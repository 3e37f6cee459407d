"""AFD: asks the driver below Winsock when a socket is ready; the answer comes as a packet in the port.

Winsock's select(2) ends in a request to this driver, the "ancillary function driver": IOCTL_AFD_POLL, with sockets, the
events wanted and a time limit. The request is not documented by Microsoft, but it has been the same since Windows NT,
and wepoll, libuv and mio rely on it. Unlike select we make it overlapped, on a handle to the driver that is associated
with our port: then the packet comes when the socket is ready, or at once if it is ready already.

This does not associate the socket itself with the port, so any socket can be polled, another loop's included.

This module can be imported on Windows only.
"""

import sys

if sys.platform != "win32":
    raise ImportError("win32 only")

import ctypes
import errno
from typing import Any, Final

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore.ports.operations import Poll
from loopcore_backends.iocp import api

DEVICE: Final = "\\Device\\Afd\\loopcore"
"""The part after the driver's own name is ours to choose."""

IOCTL_POLL: Final = 0x00012024
STATUS_PENDING: Final = 0x103
NO_LIMIT: Final = 2**63 - 1

RECEIVE: Final = 0x001
SEND: Final = 0x004
DISCONNECT: Final = 0x008  # the peer has shut its side
ABORT: Final = 0x010  # the peer has reset the connection
LOCAL_CLOSE: Final = 0x020
ACCEPT: Final = 0x080
CONNECT_FAIL: Final = 0x100

READING: Final = RECEIVE | DISCONNECT | ACCEPT
WRITING: Final = SEND
ALWAYS: Final = ABORT | CONNECT_FAIL | LOCAL_CLOSE


class PollRequest:
    """One question to the driver; `key` is the address of its status block, which takes the place of an OVERLAPPED."""

    __slots__ = ("_device", "_info", "_status", "key")

    def __init__(self, operation: Poll, device: int) -> None:
        self._device = device
        self._status = api.IoStatus()
        self.key: int = ctypes.addressof(self._status)
        self._info = info = api.PollInfo(NO_LIMIT, 1, 0)
        try:
            info.handles[0].handle = api.base_socket(operation.fd)
        except OSError as exc:
            raise not_open(operation.fd) from exc
        info.handles[0].events = (
            ALWAYS
            | (READING if operation.interest & READ else 0)
            | (WRITING if operation.interest & WRITE else 0)
        )  # fmt: skip
        size = ctypes.sizeof(info)
        address = ctypes.addressof(info)
        status = api.control_device(
            device, None, None, self.key, self._status, IOCTL_POLL, address, size, address, size
        )  # fmt: skip
        if status not in (0, STATUS_PENDING):
            raise api.error_from_status(status)

    def result(self) -> int:
        """Return what the socket is ready for. Raises OSError if it was closed, or the request was cancelled."""
        status = self._status.status & 0xFFFFFFFF
        if status != 0:
            raise api.error_from_status(status)
        events = self._info.handles[0].events if self._info.count else 0
        if events & LOCAL_CLOSE:
            raise not_open(self._info.handles[0].handle)
        return ready_for(events)

    def cancel(self) -> None:
        """Withdraw the question; the packet still comes."""
        api.cancel_io(self._device, self.key)

    def drop(self) -> None:
        """Nothing to release."""


def ready_for(events: int) -> int:
    """Return the bits of `loopcore.ports.interest` for the driver's."""
    found = 0
    if events & READING:
        found |= READ
    if events & WRITING:
        found |= WRITE
    if events & DISCONNECT:
        found |= HANGUP
    if events & (ABORT | CONNECT_FAIL):
        found |= READ | WRITE | ERROR
    return found


def not_open(number: int) -> OSError:
    """Return the port's error for a descriptor that was closed: a retry would report it again."""
    return OSError(errno.EBADF, f"{number} is not an open socket; on Windows only sockets can be watched")


def open_afd() -> Any:
    """Return a handle to the driver. Raises OSError if it cannot be opened."""
    return api.open_device(DEVICE)
