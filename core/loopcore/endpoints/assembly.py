"""The assembly of one loop's endpoints.

Here the endpoints get the factories of their transports: apart from `loopcore.endpoints.tls`, only this module imports
the transport classes. The facade calls `assemble` once and delegates to the parts:

    create_connection            endpoints.connector
    create_server                endpoints.listener
    create_unix_connection       endpoints.unix
    create_unix_server           endpoints.unix
    connect_accepted_socket      endpoints.opener
    create_datagram_endpoint     endpoints.datagrams
    connect_read/write_pipe      endpoints.pipes
    subprocess_exec/_shell       endpoints.processes
    start_tls                    endpoints.tls
    sendfile                     endpoints.files
"""

import asyncio
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from loopcore.endpoints.connect import Connector
from loopcore.endpoints.datagram import DatagramEndpoints
from loopcore.endpoints.listen import Listener
from loopcore.endpoints.needs import DatagramTransportFactory, EndpointHost, ProtocolFactory
from loopcore.endpoints.opener import StreamOpener
from loopcore.endpoints.pipes import PipeEndpoints
from loopcore.endpoints.process import ProcessEndpoints
from loopcore.endpoints.sendfile import FileSender
from loopcore.endpoints.tls import Tls, TlsSettings
from loopcore.endpoints.unix import UnixEndpoints
from loopcore.ports.readiness import Capability
from loopcore.services.children import Children
from loopcore.services.sendfile import SendFiles
from loopcore.transports.datagram import DatagramTransport
from loopcore.transports.opening import open_stream
from loopcore.transports.pipes import ReadPipeTransport, WritePipeTransport
from loopcore.transports.process import ProcessTransport
from loopcore.transports.server import MakeTransport, Server

if TYPE_CHECKING:
    from loopcore.kernel.scheduler import Scheduler


class Endpoints(NamedTuple):
    """The parts that the facade delegates to."""

    connector: Connector
    listener: Listener
    unix: UnixEndpoints
    opener: StreamOpener
    datagrams: DatagramEndpoints
    pipes: PipeEndpoints
    processes: ProcessEndpoints
    tls: Tls
    files: FileSender


def assemble(host: EndpointHost, scheduler: "Scheduler", *, children: Children, files: SendFiles) -> Endpoints:
    """Return the endpoints of the loop, which is both `host` and `scheduler`: the transports need a Scheduler."""
    # Each is an asyncio transport only through `__class__`, which type checkers do not see.
    make_stream = cast("MakeTransport", partial(open_stream, scheduler))
    make_datagram_transport = cast("DatagramTransportFactory", partial(DatagramTransport, scheduler))
    tls = Tls(scheduler, make_stream)
    opener = StreamOpener(host, make_stream, tls)

    def make_server(
        sockets: list[socket.socket],
        protocol_factory: ProtocolFactory,
        *,
        tls: TlsSettings | None,
        backlog: int,
        after_close: Callable[[], None] | None = None,
    ) -> asyncio.AbstractServer:
        return Server(
            scheduler,
            sockets,
            protocol_factory,
            ssl_context=None if tls is None else tls.context,
            backlog=backlog,
            make_transport=make_stream if tls is None else partial(opener.make_transport, tls=tls),
            after_close=after_close,
        )

    # On Windows only a port for Windows can read and write pipes.
    has_pipes = sys.platform != "win32" or Capability.HANDLES in scheduler.backend.capabilities
    return Endpoints(
        connector=Connector(host, opener),
        listener=Listener(host, make_server),
        unix=UnixEndpoints(host, opener, make_server),
        opener=opener,
        datagrams=DatagramEndpoints(host, make_datagram_transport),
        pipes=PipeEndpoints(
            host, partial(ReadPipeTransport, scheduler), partial(WritePipeTransport, scheduler), has_pipes=has_pipes
        ),
        processes=ProcessEndpoints(host, partial(ProcessTransport, scheduler, children), has_pipes=has_pipes),
        tls=tls,
        files=FileSender(host, files),
    )
