"""The assembly of one loop's endpoints.

The only module in which endpoints refer to the transport classes, and so the only one that gets the loop itself, which
those classes need. The facade calls `assemble` once and delegates to the parts:

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
from typing import Any, NamedTuple

from loopcore.endpoints.connect import Connector
from loopcore.endpoints.datagram import DatagramEndpoints
from loopcore.endpoints.listen import Listener
from loopcore.endpoints.needs import NameResolver, ProtocolFactory, SocketConnector
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
from loopcore.transports.server import Server


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


def assemble(
    loop: Any, *, resolver: NameResolver, sockops: SocketConnector, children: Children, files: SendFiles
) -> Endpoints:
    """Return the endpoints of `loop`, which must be initialised far enough for its methods to be bound."""
    # Any: it is an asyncio.Transport only through `__class__`, which type checkers do not see.
    make_transport: Any = partial(open_stream, loop)
    make_datagram_transport: Any = partial(DatagramTransport, loop)
    tls = Tls(loop, create_future=loop.create_future, make_transport=make_transport)
    opener = StreamOpener(
        create_future=loop.create_future, make_transport=make_transport, tls=tls, get_debug=loop.get_debug
    )

    def make_server(
        sockets: list[socket.socket],
        protocol_factory: ProtocolFactory,
        *,
        tls: TlsSettings | None,
        backlog: int,
        after_close: Callable[[], None] | None = None,
    ) -> asyncio.AbstractServer:
        server: asyncio.AbstractServer = Server(
            loop,
            sockets,
            protocol_factory,
            ssl_context=None if tls is None else tls.context,
            backlog=backlog,
            make_transport=make_transport if tls is None else partial(opener.make_transport, tls=tls),
            after_close=after_close,
        )
        return server

    return Endpoints(
        connector=Connector(
            resolver=resolver,
            sockops=sockops,
            opener=opener,
            create_task=loop.create_task,
            time=loop.time,
            get_debug=loop.get_debug,
        ),
        listener=Listener(resolver=resolver, make_server=make_server, get_debug=loop.get_debug),
        unix=UnixEndpoints(sockops=sockops, opener=opener, make_server=make_server),
        opener=opener,
        datagrams=DatagramEndpoints(
            resolver=resolver,
            sockops=sockops,
            create_future=loop.create_future,
            make_transport=make_datagram_transport,
            get_debug=loop.get_debug,
        ),
        pipes=assemble_pipes(loop),
        processes=assemble_processes(loop, children),
        tls=tls,
        files=FileSender(files=files, create_future=loop.create_future),
    )


def assemble_pipes(loop: Any) -> PipeEndpoints:
    """Return `loop`'s endpoints for pipes."""
    return PipeEndpoints(
        create_future=loop.create_future,
        make_reader=partial(ReadPipeTransport, loop),
        make_writer=partial(WritePipeTransport, loop),
        get_debug=loop.get_debug,
        has_pipes=has_pipes(loop),
    )


def has_pipes(loop: Any) -> bool:
    """Return whether `loop` can read and write pipes: on Windows only with a Windows port (Capability.HANDLES)."""
    return sys.platform != "win32" or Capability.HANDLES in loop.backend.capabilities


def assemble_processes(loop: Any, children: Children) -> ProcessEndpoints:
    """Return `loop`'s endpoints for subprocesses; `children` reports when they end."""
    return ProcessEndpoints(
        pipes=loop,
        make_transport=partial(ProcessTransport, loop, children),
        get_debug=loop.get_debug,
        has_pipes=has_pipes(loop),
    )
