"""The stream transport of the pure build over readiness ports, with its calls written out (docs/adr/0002).

A write to an empty queue, and the flush at the end of the tick, are one function each, including what
`interpreted_driver` and its bases do for them. They cover the ordinary case: plain `bytes`, nothing refused, one
buffer, and nothing waiting for the kernel. Every other case goes through the layers, by StreamTransport's own methods
and the driver's.

Thread: the loop's own.
"""

from typing import Any

from loopcore.transports import stream


class StreamTransport(stream.StreamTransport):
    """A stream of bytes in both directions, for the pure build; its driver is `interpreted_driver.ReadinessDriver`.

    It has the name of the class it replaces, because hooks and reports show the name.
    """

    __slots__ = ()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        driver: Any = self._driver
        if type(data) is not bytes or driver.unsent or self._refuses or not data:
            stream.StreamTransport.write(self, data)
            return
        driver._single = data
        driver.unsent = size = len(data)
        scheduler: Any = self._loop
        if size > self._join_limit:  # `_maybe_pause_writing`, written out
            try:
                self._run()
            except BaseException:
                scheduler._flushes.append(self)  # sends what an interruption has left
                raise
            if driver.unsent:
                self._maybe_pause_writing()
            return
        scheduler.unflushed = scheduler.unflushed + size if scheduler.unflushed else size  # no addition if 0
        if not driver._flush_scheduled:
            driver._flush_scheduled = True
            scheduler._flushes.append(self)

    def _run(self) -> None:
        driver: Any = self._driver
        if driver._single is None or driver._head or driver._blocked:
            driver.run_flush()
            return
        driver._flush_scheduled = False
        try:
            sent = driver.sock.send(driver._single)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            driver._send_failed(exc)
            return
        driver.sent += sent
        self._loop.bytes_sent += sent
        if sent != driver.unsent:
            driver._keep_rest(sent)
            return
        driver._single = None
        driver.unsent = 0
        if self._protocol_paused or self._awaits_drain:
            self._on_written()
