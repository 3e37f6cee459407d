"""The choice of the driver for each port, made only here.

A transport asks here for its driver and does not know which port is below it. Called once for each transport or
listening socket, in the loop's own thread.
"""

import socket
import stat
from typing import TYPE_CHECKING, Any

from loopcore.transports.acceptor import Acceptor, CompletionAcceptor
from loopcore.transports.driver import DatagramDriver, Sink, StreamDriver
from loopcore.transports.driver_completion import CompletionDriver
from loopcore.transports.driver_datagram import CompletionDatagramDriver, ReadinessDatagramDriver
from loopcore.transports.driver_pipe import CompletionPipeReader, CompletionPipeWriter, PipeReader, PipeWriter
from loopcore.transports.driver_readiness import ReadinessDriver

if TYPE_CHECKING:
    from contextvars import Context

    from loopcore.kernel.scheduler import Scheduler
    from loopcore.transports.server import Server


def make_stream_driver(scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> StreamDriver:
    """Return the driver of a connected stream socket."""
    driver: StreamDriver  # avoids the cost of a constructor call
    if scheduler._completions is not None:
        driver = CompletionDriver.__new__(CompletionDriver)
    else:
        driver = ReadinessDriver.__new__(ReadinessDriver)
    driver._prepare(scheduler, sink, sock, context)
    return driver


def make_datagram_driver(scheduler: "Scheduler", sink: Sink, sock: socket.socket, context: "Context") -> DatagramDriver:
    """Return the driver of a datagram socket."""
    if scheduler._completions is None or scheduler._completions.polls_cheaply:
        return ReadinessDatagramDriver(scheduler, sink, sock, context)
    return CompletionDatagramDriver(scheduler, sink, sock, context)


def make_pipe_driver(
    scheduler: "Scheduler", sink: Sink, pipe: Any, context: "Context", mode: int, writes: bool
) -> StreamDriver:
    """Return the driver of the write end of a pipe, or of its read end; `mode` is fstat(2)'s st_mode."""
    if scheduler._completions is None or stat.S_ISCHR(mode):
        return (PipeWriter if writes else PipeReader)(scheduler, sink, pipe, context)
    return (CompletionPipeWriter if writes else CompletionPipeReader)(scheduler, sink, pipe, context)


def make_acceptor(server: "Server", sock: socket.socket, backlog: int) -> Acceptor:
    """Return the acceptor of a listening socket."""
    if server._loop._completions is None:
        return Acceptor(server, sock, backlog)
    return CompletionAcceptor(server, sock, backlog)
