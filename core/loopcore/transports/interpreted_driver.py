"""The driver of the pure build for stream sockets over readiness ports, with its calls written out (docs/adr/0002).

The steps of every message are one function: a receive, the protocol's call, and the send of one buffer that
answers it (docs/adr/0011). `interpreted_stream` has the write, and the send at the end of the tick. Everything else is
ReadinessDriver's.
"""

from typing import Any

from loopcore.kernel.interpreted_tick import receive_directly
from loopcore.native.interpreted_sockets import RECEIVE_LIMIT
from loopcore.transports import driver_readiness
from loopcore.transports.driver_buffered import READ_FAILED, WRITE_FAILED


class ReadinessDriver(driver_readiness.ReadinessDriver):
    """One connected, non-blocking socket over a readiness port, for the pure build.

    It has the name of the class it replaces, because hooks and reports show the name.
    """

    __slots__ = ()

    def _receive(self) -> int:
        sink: Any = self.sink
        scheduler = self.scheduler
        if self.buffered:
            nbytes = self._receive_into_buffer()
        else:
            limit = scheduler.receive_limit
            if limit != RECEIVE_LIMIT and (limit > RECEIVE_LIMIT or limit <= 0):
                limit = RECEIVE_LIMIT
            try:
                # Straight into a `bytes`: below malloc's mmap threshold that costs less than a buffer and a copy.
                received = self.sock.recv(limit)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as exc:
                return self._receive_failed(exc)
            nbytes = len(received)
            if not nbytes:
                sink._end_of_file()
                return 0
            self.received += nbytes
            scheduler.bytes_received += nbytes
            try:
                sink._on_data(received)  # `_on_received`, written out
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as exc:
                sink._protocol_failed(exc, "data_received")
        if self._flush_scheduled and not scheduler._observed:  # `_answer`, written out
            flushes: Any = scheduler._flushes
            if len(flushes) == 1 and flushes[0] is sink and not self._blocked:
                try:
                    flushes.clear()
                    scheduler.unflushed = 0
                    scheduler.stats.callbacks += 1
                    if self._single is None or self._head:
                        self.run_flush()
                        return nbytes
                    self._flush_scheduled = False
                    try:
                        sent = self.sock.send(self._single)
                    except (SystemExit, KeyboardInterrupt):
                        raise
                    except BaseException as exc:
                        self._send_failed(exc)
                        return nbytes
                    self.sent += sent
                    scheduler.bytes_sent += sent
                    if sent != self.unsent:
                        self._keep_rest(sent)
                        return nbytes
                    self._single = None
                    self.unsent = 0
                    if sink._protocol_paused or sink._awaits_drain:
                        sink._on_written()
                except BaseException:
                    scheduler._flushes.append(sink)  # running it once more than needed does nothing
                    raise
        return nbytes

    def _receive_failed(self, exc: BaseException) -> int:
        """Handle an exception raised by a receive; return 0, the number of bytes received."""
        if not isinstance(exc, (BlockingIOError, InterruptedError)):
            self.sink._failed(exc, READ_FAILED)
        return 0

    def _send_failed(self, exc: BaseException) -> None:
        """Handle an exception raised by the send of the single item."""
        if isinstance(exc, (BlockingIOError, InterruptedError)):
            self._keep_rest(0)
            return
        self.discard()
        self.sink._failed(exc, WRITE_FAILED)

    def _keep_rest(self, sent: int) -> None:
        """Keep the single item without its first `sent` bytes, which the kernel has taken, and wait for writability."""
        sink: Any = self.sink
        self._head = sent
        self.unsent -= sent
        try:
            self._readiness.set_writer(self._fileno, sink)
            self._blocked = True
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            self.discard()
            sink._failed(exc, WRITE_FAILED)
            return
        sink._on_written()

    def _receive_into_buffer(self) -> int:
        sink: Any = self.sink
        try:
            buffer = sink._on_get_buffer(-1)  # `_get_buffer`, written out
            if not len(buffer):
                raise RuntimeError("get_buffer() returned an empty buffer")
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            sink._protocol_failed(exc, "get_buffer")
            return 0
        if not self.reading:  # get_buffer() may have closed or paused the transport
            return 0
        try:
            nbytes = self.sock.recv_into(buffer)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            return self._receive_failed(exc)
        if not nbytes:
            sink._end_of_file()
            return 0
        self.received += nbytes
        self.scheduler.bytes_received += nbytes
        try:
            sink._on_buffer_updated(nbytes)  # `_buffer_updated`, written out
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            sink._protocol_failed(exc, "buffer_updated")
        return nbytes


receive_directly(ReadinessDriver)
