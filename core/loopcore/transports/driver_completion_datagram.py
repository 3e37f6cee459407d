"""The datagram driver for completion ports: an operation receives, and system calls send.

A MultishotReceiver receives. An error of the socket (ICMP) ends the operation; it is reported, and the operation is
submitted again.

Sending is the readiness driver's: at once, because asyncio's `sendto` raises or reports a datagram's error inside the
call, and because datagrams cannot be joined. The driver waits only when the kernel has no room, and does so through
POLL.

Thread: the loop's own.
"""

import errno
import socket
from typing import TYPE_CHECKING, Any

from loopcore.ports.operations import ReceiveFrom
from loopcore.transports.driver import Sink
from loopcore.transports.driver_datagram import DATAGRAM_LIMIT, READ_FAILED, ReadinessDatagramDriver
from loopcore.transports.multishot_receiver import MultishotReceiver

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler


class CompletionDatagramDriver(ReadinessDatagramDriver):
    """One datagram socket, non-blocking, over a completion port. The contract is DatagramDriver's."""

    __slots__ = ("_receiver",)

    def _prepare(self, scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> None:
        ReadinessDatagramDriver._prepare(self, scheduler, sink, sock, context)
        self._receiver: MultishotReceiver = MultishotReceiver(scheduler, self, ReceiveFrom(self.fd, DATAGRAM_LIMIT))

    def start_reading(self) -> None:
        if not self.reading:
            self.reading = True
            self._receiver.start()

    def stop_reading(self) -> None:
        if self.reading:
            self.reading = False
            self._receiver.stop()

    def _arrived(self, result: Any) -> None:
        if isinstance(result, tuple):
            self.count_received(len(result[0]))
            self.sink._on_datagram(result[0], result[1])
        elif result.errno in (errno.EBADF, errno.ENOTSOCK):
            self.sink._failed(result, READ_FAILED)  # closed elsewhere: submitting again would never end
        else:
            self.sink._refused(result)

    def release(self) -> None:
        self._receiver.release()
        ReadinessDatagramDriver.release(self)
