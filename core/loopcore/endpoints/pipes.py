"""Pipes: connecting a protocol to one end of a pipe."""

import asyncio
from typing import Any, Final, Protocol

from loopcore.endpoints.needs import EndpointHost, ProtocolFactory
from loopcore.log import logger

NO_PIPES: Final = "on Windows select(2) takes sockets only; for pipes use backend='iocp', which auto chooses"


class MakePipe(Protocol):
    """Creates the transport of one end, which owns the file from then on unless this raises."""

    def __call__(
        self, pipe: Any, protocol: asyncio.BaseProtocol, *, waiter: asyncio.Future[Any] | None = None
    ) -> Any: ...


class PipeEndpoints:
    """`connect_read_pipe` and `connect_write_pipe`. Thread: the loop's own."""

    def __init__(self, host: EndpointHost, make_reader: MakePipe, make_writer: MakePipe, *, has_pipes: bool) -> None:
        self._host = host
        self._make_reader = make_reader
        self._make_writer = make_writer
        self._has_pipes = has_pipes

    async def connect_read_pipe(self, protocol_factory: ProtocolFactory, pipe: Any) -> tuple[Any, Any]:
        """Read from `pipe` with a protocol; return the transport, which owns `pipe` from then on, and the protocol.

        Raises ValueError, and leaves `pipe` to the caller, if it is a file, a directory or a block device;
        NotImplementedError if the backend does not support pipes, like select on Windows.
        """
        return await self._connect(self._make_reader, "Read", protocol_factory, pipe)

    async def connect_write_pipe(self, protocol_factory: ProtocolFactory, pipe: Any) -> tuple[Any, Any]:
        """Write to `pipe` with a protocol. Otherwise like `connect_read_pipe`."""
        return await self._connect(self._make_writer, "Write", protocol_factory, pipe)

    async def _connect(
        self, make: MakePipe, name: str, protocol_factory: ProtocolFactory, pipe: Any
    ) -> tuple[Any, Any]:
        if not self._has_pipes:
            raise NotImplementedError(NO_PIPES)
        protocol = protocol_factory()
        waiter = self._host.create_future()
        transport = make(pipe, protocol, waiter=waiter)
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        if self._host.get_debug():
            logger.debug("%s pipe %r connected: (%r, %r)", name, pipe, transport, protocol)
        return transport, protocol
