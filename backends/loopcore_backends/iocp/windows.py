"""The Windows side of the backend: the port, the associated handles, and the request for each operation.

This module can be imported on Windows only.
"""

import sys

if sys.platform != "win32":
    raise ImportError("win32 only")

import _overlapped
import _winapi
import ctypes
import socket
from collections.abc import Callable
from typing import Any, Final

from loopcore.ports.operations import (
    ACCEPT,
    CONNECT,
    POLL,
    READ_FILE,
    RECEIVE,
    RECEIVE_FROM,
    SEND,
    SEND_FILE,
    SEND_TO,
    SHUTDOWN,
    WAIT_PROCESS,
    WRITE_FILE,
    Operation,
)
from loopcore_backends.iocp import WAKE, api, requests
from loopcore_backends.iocp.afd import PollRequest, open_afd

PACKETS: Final = 128
"""The most packets that one call takes; the next call takes the rest."""

INVALID_PARAMETER: Final = 87

CALLS: Final[dict[int, Callable[[Any], Any]]] = {
    ACCEPT: requests.AcceptRequest,
    CONNECT: requests.ConnectRequest,
    SEND: requests.SendRequest,
    RECEIVE_FROM: requests.ReceiveFromRequest,
    SEND_TO: requests.SendToRequest,
    READ_FILE: requests.ReadRequest,
    WRITE_FILE: requests.WriteRequest,
    SEND_FILE: requests.SendFileRequest,
}
KNOWN: Final = frozenset({*CALLS, RECEIVE, SHUTDOWN, POLL, WAIT_PROCESS})


def probe() -> None:
    """Raise OSError, saying what is missing, if the backend cannot run here."""
    try:
        _winapi.CloseHandle(open_afd())
    except OSError as exc:
        raise OSError(f"sockets cannot be polled through a port here: the driver AFD does not open ({exc})") from exc


class WindowsSystem:
    """A port, and a handle to the driver for polling."""

    def __init__(self) -> None:
        self._port = _overlapped.CreateIoCompletionPort(_overlapped.INVALID_HANDLE_VALUE, _overlapped.NULL, 0, 0)
        self._packets = (api.Packet * PACKETS)()
        self._count = ctypes.c_ulong()
        self._keys: list[int] = []
        self._tied: set[int] = set()
        self._afd = open_afd()
        self._tie(self._afd)

    def knows(self, operation: Operation) -> bool:
        return operation.code in KNOWN

    def begin(self, operation: Any, before: Any) -> tuple[Any, Any]:
        code = operation.code
        if code == POLL:
            return PollRequest(operation, self._afd), None
        if code == SHUTDOWN:
            api.shut_down(operation.fd, operation.how)
            return None, None
        if code == WAIT_PROCESS:
            return requests.ProcessRequest(operation, self._port), None
        if code == CONNECT and api.type_of_socket(operation.fd) == socket.SOCK_DGRAM:
            _overlapped.WSAConnect(operation.fd, operation.address)  # never waits, unlike that of a stream
            return None, None
        if before is None:
            self._tie(operation.fd)
        try:
            if code == RECEIVE:
                return requests.ReceiveRequest(operation, before), None
            return CALLS[code](operation), None
        except requests.Ended as ended:
            return None, ended.result

    def take(self, timeout_ms: int) -> list[int]:
        if not self._keys and not self._packets[0].address:
            # Packets are recognised by their addresses: the call's result may be lost to a signal handler.
            api.get_packets(self._port, self._packets, PACKETS, self._count, timeout_ms, False)
        for packet in self._packets:
            if not packet.address:
                break
            self._keys.append(packet.address)
        for packet in self._packets:
            if not packet.address:
                break
            packet.address = 0
        return self._keys

    def wake(self) -> None:
        _overlapped.PostQueuedCompletionStatus(self._port, 0, 0, WAKE)

    def close(self) -> None:
        """Close all but the port, which is closed with the last reference: another thread may be about to wake it."""
        _winapi.CloseHandle(self._afd)

    def __del__(self) -> None:
        port = getattr(self, "_port", None)
        if port is not None:
            _winapi.CloseHandle(port)

    def _tie(self, handle: int) -> None:
        """Associate `handle` with our port. Raises OSError if it belongs to another port already."""
        try:
            _overlapped.CreateIoCompletionPort(handle, self._port, 0, 0)
        except OSError as exc:
            # A handle of our own port gets this error too. The number alone proves nothing: it may have been reused.
            if exc.winerror != INVALID_PARAMETER or handle not in self._tied:
                _winapi.GetFileType(handle)  # raises for anything that is not a handle
                exc.add_note("a socket or pipe works with one completion port only: the first one it was used with")
                raise
        self._tied.add(handle)
