"""DatagramTransport: asyncio's transport for UDP and Unix datagram sockets.

Programs see asyncio's selector transport: the same calls in the same order, the same errors. Two things are
better. One event receives several datagrams if several wait. And two cases that asyncio gets wrong are correct: a
socket pair is connected although its other end has no name, and `sendto` on a lost transport does nothing, even where
no peer is set (asyncio calls a method of None).

Errors of the socket about a datagram, ICMP errors included, go to `error_received` and change nothing. Errors of
the protocol are reported to the loop's exception handler and change nothing; `sendto` calls `error_received`
directly, and an exception raised there reaches the caller. All of this is as in asyncio.

The size of the write buffer counts the datagrams that the kernel has refused; since Python 3.13 each counts 8 bytes
more for its header. Sizes are in bytes. Thread: the loop's own.
"""

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, Any, Final

from loopcore.kernel.formatting import describe_callback
from loopcore.log import logger
from loopcore.transports.driver import DatagramDriver
from loopcore.transports.driver_choice import make_datagram_driver
from loopcore.transports.driver_datagram import WRITE_FAILED
from loopcore.transports.lifecycle import LOST, Connection, initial_extra_info
from loopcore.transports.stream import LOST_WRITES_BEFORE_WARNING

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler

SENDS_EMPTY: Final = sys.version_info >= (3, 13)
"""Whether the running Python's asyncio sends an empty datagram; before 3.13 `sendto` ignores it."""

_SENDS_EMPTY, _LOST = SENDS_EMPTY, LOST

HEADER: Final = 8 if sys.version_info >= (3, 13) else 0
"""Bytes that a queued datagram counts in addition to its content."""


class SeenAs(asyncio.Transport, asyncio.DatagramTransport):
    """The class that `isinstance` sees: asyncio's own passes for both bases, and is tested for both."""

    __slots__ = ()


class DatagramTransport(Connection):
    """Datagrams in both directions, over a non-blocking socket, which the transport owns from now on.

    `address` is the only peer to send to, if given; the socket need not be connected to it (broadcast).
    Schedules `protocol.connection_made`, then the start of reading, then the result of `waiter`.
    """

    __slots__ = (
        "_address",
        "_peer",
        "_connected",
        "_lost_writes",
    )

    def __init__(
        self,
        scheduler: "Scheduler",
        sock: socket.socket,
        protocol: asyncio.BaseProtocol,
        address: Any = None,
        *,
        waiter: "asyncio.Future[None] | None" = None,
    ) -> None:
        connection_made = protocol.connection_made  # fails first for an object that is not a protocol
        self._begin(scheduler, initial_extra_info(sock, None))
        self._address: Any = address
        self._peer: Any = self._extra["peername"]
        """The address of the connected peer: None if not connected, '' for a nameless peer (a socket pair)."""
        self._connected: bool = bool(self._peer)
        """Whether every datagram goes to that peer, whatever address is given; as in asyncio."""
        self._lost_writes: int = 0
        self._driver: DatagramDriver = make_datagram_driver(scheduler, self, sock, self._context)
        self.set_protocol(protocol)
        self._open_soon(connection_made, waiter)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return SeenAs

    # Receiving

    def _on_datagram(self, data: bytes, address: Any) -> None:
        try:
            self._protocol.datagram_received(data, address)  # type: ignore[attr-defined]
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._report_failed_call("datagram_received", exc)

    def _refused(self, exc: OSError) -> None:
        try:
            self._protocol.error_received(exc)  # type: ignore[attr-defined]
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._report_failed_call("error_received", error)

    def _report_failed_call(self, name: str, exc: BaseException) -> None:
        """Report an exception raised by a method of the protocol, in asyncio's words; the transport stays open."""
        method = getattr(self._protocol, name, None)
        called = f"protocol.{name}()" if method is None else describe_callback(method, (), self._loop.get_debug())
        self._report(exc, f"Exception in callback {called}")

    # Sending

    def sendto(self, data: bytes | bytearray | memoryview, addr: Any = None) -> None:
        """Send a datagram to `addr`, or to the peer if there is one; queue it if the kernel has no room.

        Raises TypeError if `data` is not bytes-like, ValueError if `addr` is not the only peer's address, OSError if
        the kernel has no room and refuses to watch the socket: the datagram is not queued then.
        """
        if type(data) is not bytes and not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if not _SENDS_EMPTY and not data:
            return
        if self._address:
            if addr is not None and addr != self._address:
                raise ValueError(f"Invalid address: must be None or {self._address}")
            addr = self._address
        if self._state >= _LOST:
            self._lost_writes += 1
            if self._lost_writes >= LOST_WRITES_BEFORE_WARNING:
                logger.warning("socket.send() raised exception.")
            return
        driver: DatagramDriver = self._driver
        connected = self._connected or (addr is None and self._peer is not None)
        try:
            if driver.send(data, addr, connected):
                return
        except OSError as exc:
            self._protocol.error_received(exc)  # type: ignore[attr-defined]
            return
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self._failed(exc, WRITE_FAILED)
            return
        item = bytes(data)  # mutable data must not be kept
        driver.queue(item, addr, connected, len(item) + HEADER)
        if driver.unsent > self._join_limit:
            self._maybe_pause_writing()
