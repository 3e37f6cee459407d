"""What the tests of TLS share: certificates, and a peer that does TLS by hand over a bare socket.

The transport under test stands on one end of a pair of sockets. On the other a `Peer` drives an `ssl.SSLObject` and the
loop's sock_ methods, so it can stop, cut and garble wherever a test wants it to.
"""

import asyncio
import contextlib
import functools
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.transports.authority import CA, LeafCert
from tests.transports.recorder import settle, unix_pair

RECORD_HEADER = 5
ALERT, HANDSHAKE, APPLICATION_DATA = 21, 22, 23


@functools.cache
def authority() -> CA:
    return CA()


@functools.cache
def certificate() -> LeafCert:
    return authority().issue_cert("localhost", "127.0.0.1")


def server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate().configure_cert(context)
    return context


def client_context() -> ssl.SSLContext:
    """A client that trusts our authority alone: to read the system's takes long, and is done for each context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority().configure_trust(context)
    return context


def stranger_context() -> ssl.SSLContext:
    """A client that trusts nobody we know."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Peer:
    """One end of a TLS connection, by hand: it reads and sends only when it is told to."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, server_side: bool) -> None:
        self.sock = sock
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        name = None if server_side else "localhost"
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=server_side, server_hostname=name)
        self.records: list[tuple[int, int]] = []
        """Type and length of each record that came in, in so far as receives ended with records."""

    async def flush(self) -> None:
        if self.outgoing.pending:
            await asyncio.get_running_loop().sock_sendall(self.sock, self.outgoing.read())

    async def fetch(self) -> bool:
        """Receive once; False at the end of the stream."""
        data = await asyncio.get_running_loop().sock_recv(self.sock, 1 << 18)
        self.incoming.write(data)
        rest = data
        while len(rest) >= RECORD_HEADER:
            length = int.from_bytes(rest[3:5], "big")
            self.records.append((rest[0], length))
            rest = rest[RECORD_HEADER + length :]
        return bool(data)

    async def handshake(self) -> None:
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.flush()
                if not await self.fetch():
                    raise ConnectionResetError("the stream ended in the handshake") from None
            except ssl.SSLError:
                await self.flush()
                raise
            else:
                await self.flush()
                return

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[self.tls.write(view) :]
        await self.flush()

    async def receive(self, count: int = 1 << 40) -> bytes:
        """Return `count` bytes, or less if the session or the stream ends before."""
        got = bytearray()
        while len(got) < count:
            try:
                part = self.tls.read(min(count - len(got), 1 << 16))
            except ssl.SSLWantReadError:
                if await self.fetch():
                    continue
                break
            except ssl.SSLZeroReturnError:
                break
            if not part:
                break
            got += part
        return bytes(got)

    async def notify(self) -> None:
        """Send close_notify."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.unwrap()
        await self.flush()

    def was_notified(self) -> bool:
        """Tell whether the other side's close_notify has been read."""
        try:
            return self.tls.read(1) == b""
        except ssl.SSLZeroReturnError:
            return True
        except ssl.SSLWantReadError:
            return False


async def connect(protocol: Any, near: socket.socket, *, server_side: bool, **options: Any) -> Any:
    """Put TLS on `near`, with our certificates unless `options` has another context; return the transport."""
    loop = asyncio.get_running_loop()
    if server_side:
        options = {"ssl": server_context()} | options
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, near, **options)
    else:
        options = {"ssl": client_context(), "server_hostname": "localhost"} | options
        transport, _ = await loop.create_connection(lambda: protocol, sock=near, **options)
    return transport


@contextlib.asynccontextmanager
async def secured(
    protocol: Any,
    *,
    server_side: bool = True,
    make_pair: Callable[[], tuple[socket.socket, socket.socket]] = unix_pair,
    peer_context: ssl.SSLContext | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Any, Peer]]:
    """Give `protocol` a TLS transport; yield that and its peer, after the handshake, and leave neither behind."""
    near, far = make_pair()
    with far:
        context = peer_context or (client_context() if server_side else server_context())
        peer = Peer(far, context, server_side=not server_side)
        connecting = asyncio.ensure_future(connect(protocol, near, server_side=server_side, **options))
        await asyncio.gather(connecting, peer.handshake())
        transport = connecting.result()
        try:
            yield transport, peer
        finally:
            transport.abort()
            await settle()


def is_oracle(loop: asyncio.AbstractEventLoop) -> bool:
    return isinstance(loop, asyncio.SelectorEventLoop)
