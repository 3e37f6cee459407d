"""EventLoop: the facade. asyncio's interface over the scheduler and a number of small parts.

The hot methods (call_soon and its relatives, time, create_task, the tick) are the Scheduler's. The facade itself
implements the life cycle: running, stopping, closing. Every other method is one line that delegates to a part. Each
part gets the loop as asyncio's interface, or behind a Protocol of the few methods it uses, so a method that a program
replaces (`loop.getaddrinfo = ...`) is used, as in asyncio.

Signatures, errors and their texts are asyncio's; parameters that asyncio added later are accepted on every Python.

Thread: the loop's own, except call_soon_threadsafe, and run_in_executor as far as asyncio allows it.
"""

import asyncio
import socket
import sys
import warnings
from asyncio import events as asyncio_events
from collections.abc import Awaitable, Callable, Generator, Iterable
from concurrent.futures import Executor
from subprocess import PIPE
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar, TypeVarTuple, Unpack

from loopcore.kernel.faults import ExceptionHandler, FaultContext, Faults
from loopcore.kernel.own_tasks import OwnTasks
from loopcore.kernel.scheduler import Scheduler
from loopcore.kernel.task_makers import ClassTasks
from loopcore.log import logger
from loopcore.ports.clock import Clock
from loopcore.ports.completion import Backend
from loopcore.selection.discovery import load_plugins, take_backend
from loopcore.selection.environment import debug_is_asked_for, read_settings
from loopcore.services.asyncgens import AsyncGenerators
from loopcore.services.forking import AtForkState
from loopcore.services.literals import AddressInfo
from loopcore.services.origins import CoroutineOrigins
from loopcore.services.parts import close_parts, drop_parts, part, table_of_parts, table_of_transports
from loopcore.services.signals import RUNS_LISTEN, Signals
from loopcore.services.socket_future import READING, WRITING, SocketFuture
from loopcore.services.sockops import SockOps

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from ssl import SSLContext

    from _typeshed import FileDescriptorLike, ReadableBuffer, WriteableBuffer

    from loopcore.endpoints.assembly import Endpoints
    from loopcore.services.children import Children
    from loopcore.services.executor import Executors
    from loopcore.services.resolver import Resolver
    from loopcore.services.sendfile import SendFiles

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
P = TypeVar("P", bound=asyncio.BaseProtocol)

Factory: TypeAlias = Callable[[], P]
SSLOption: TypeAlias = "SSLContext | bool | None"

CLEANS_UP = sys.version_info >= (3, 13)
"""Whether a Unix server removes its socket's file by default, as asyncio's does."""


def leave_running_loop() -> None:
    """Note that no loop runs in this thread any more. Up to 3.13 this allocates memory, which may fail."""
    try:
        asyncio_events._set_running_loop(None)
    except MemoryError:
        asyncio_events._set_running_loop(None)  # a second attempt is nearly sure to succeed


# Parts that a small program never uses, except that `loopcore.run` shuts down the executors at its end. Their modules
# are imported with the part: together half of loopcore's.


def endpoints_of(loop: "EventLoop") -> "Endpoints":
    from loopcore.endpoints.assembly import assemble

    return assemble(loop, loop, children=loop._children, files=loop._files)


def executors_of(loop: "EventLoop") -> "Executors":
    from loopcore.services.executor import Executors

    return Executors(loop, loop.probes, loop._threads)


def resolver_of(loop: "EventLoop") -> "Resolver":
    from loopcore.services.resolver import Resolver

    return Resolver(loop)


def children_of(loop: "EventLoop") -> "Children":
    from loopcore.services.children import Children

    return Children(loop)


def files_of(loop: "EventLoop") -> "SendFiles":
    from loopcore.services.sendfile import SendFiles

    return SendFiles(loop, loop._sockops)


class EventLoop(Scheduler, asyncio.AbstractEventLoop):  # type: ignore[misc]
    """An asyncio event loop on a backend."""

    __slots__ = ("_parts", "_threads")  # the dict is for attributes that a program sets (docs/adr/0007)

    def __init__(
        self,
        backend: Backend | str | None = None,
        *,
        plugins: str | Iterable[str | object] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Take over `backend`, or create the one it names; see `loopcore.new_event_loop` for the arguments."""
        self._parts: dict[str, Any] = table_of_parts(self)
        settings = read_settings()  # a wrong value is refused here, not at first use
        tasks = OwnTasks() if settings.task_classes is None else ClassTasks(*settings.task_classes)
        named_plugins = load_plugins(plugins)
        taken, make_backend = take_backend(backend)
        try:
            Scheduler.__init__(self, taken, clock=clock, tasks=tasks)
        except BaseException:
            taken.close()
            raise
        try:
            for attribute, value in settings.attributes.items():
                setattr(self, attribute, value)
            if debug_is_asked_for():
                Scheduler.set_debug(self, True)
            self._threads = settings.threads
            self._parts["_at_fork_state"] = AtForkState(self, make_backend)
            for name, plugin in named_plugins:
                self.probes.register(plugin, name)
        except BaseException:
            self._close_scheduler()
            raise
        try:
            self.probes.cold("loopcore_loop_created", loop=self, backend=taken)
        except BaseException:
            EventLoop.close(self)
            raise

    _transports = part(table_of_transports)
    _executors = part(executors_of)
    _signals = part(Signals)
    _faults = part(Faults)
    _asyncgens = part(AsyncGenerators)
    _origins = part(lambda own: CoroutineOrigins())
    _resolver = part(resolver_of)
    _sockops = part(lambda own: SockOps(own, own, own._transports))
    _children = part(children_of)
    _files = part(files_of)
    _endpoints = part(endpoints_of)

    @property
    def _closed(self) -> bool:
        """`is_closed` under the name that libraries look up in asyncio's loop."""
        return self.is_closed()

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} backend={self.backend.name} running={self.is_running()} "
            f"closed={self.is_closed()} debug={self.get_debug()}>"
        )

    def __del__(self, _warn: Callable[..., object] = warnings.warn) -> None:
        if hasattr(self, "_threads") and not self.is_closed():  # else the constructor failed, or it is closed
            self.probes.belong_to(self)  # the collector has cleared the reference that is passed to hooks
            _warn(f"unclosed event loop {self!r}", ResourceWarning, source=self)
            if not self.is_running():
                self.close()

    # --- life cycle ---------------------------------------------------------------------------------

    def run_forever(self) -> None:
        self._check_can_run()
        asyncgens = self._asyncgens
        try:
            if self.get_debug():
                self._origins.track(True)
            asyncgens.install()
            asyncio_events._set_running_loop(self)
            if RUNS_LISTEN:
                self._signals.begin_run()
            self._run_ticks()
        finally:
            leave_running_loop()
            if RUNS_LISTEN:
                self._signals.end_run()
            if "_origins" in self._parts:
                self._origins.track(False)
            asyncgens.restore()

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        self._check_can_run()
        is_new = not asyncio.isfuture(future)
        future = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
        if is_new:
            # If the run ends early, the exception below is report enough.
            future._log_destroy_pending = False  # type: ignore[attr-defined]
        future.add_done_callback(_stop_loop_of)
        try:
            self.run_forever()
        except BaseException:
            if is_new and future.done() and not future.cancelled():
                future.exception()  # counts as retrieved: the caller has no access to this task
            raise
        finally:
            future.remove_done_callback(_stop_loop_of)
        if not future.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return future.result()

    def stop(self) -> None:
        self._stop_ticks()

    def is_running(self) -> bool:
        return self._thread_id is not None

    def close(self) -> None:
        if self.is_running():
            raise RuntimeError("Cannot close a running event loop")
        if self.is_closed():
            return
        if self.get_debug():
            logger.debug("Close %r", self)
        try:
            self.probes.cold("loopcore_loop_closing", loop=self)
        finally:
            try:
                close_parts(self)
            finally:
                self._close_scheduler()
                drop_parts(self)

    async def shutdown_asyncgens(self) -> None:
        await self._asyncgens.shutdown()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        await self._executors.shutdown(timeout)

    def set_debug(self, enabled: bool) -> None:
        Scheduler.set_debug(self, enabled)
        if self.is_running():
            self.call_soon_threadsafe(self._origins.track, enabled)

    def _check_can_run(self) -> None:
        self._check_closed()
        if self.is_running():
            raise RuntimeError("This event loop is already running")
        if asyncio_events._get_running_loop() is not None:
            raise RuntimeError("Cannot run the event loop while another loop is running")

    # --- faults -------------------------------------------------------------------------------------

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        self._faults.set_exception_handler(handler)

    def get_exception_handler(self) -> ExceptionHandler | None:
        return self._faults.get_exception_handler()

    def default_exception_handler(self, context: FaultContext) -> None:
        self._faults.default(context)

    def call_exception_handler(self, context: FaultContext) -> None:
        self.probes.cold("loopcore_exception", loop=self, context=context)
        self._faults.call(context)

    # --- executor, resolver, signals ----------------------------------------------------------------

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        self._check_closed()
        return self._executors.run(executor, func, *args)

    def unfinished_jobs(self) -> list[Callable[..., Any]]:
        """Return the functions that the default executor and the resolver's threads are running or have queued."""
        return self._executors.unfinished()

    def set_default_executor(self, executor: "ThreadPoolExecutor") -> None:  # type: ignore[override]
        self._executors.set_default(executor)

    async def getaddrinfo(  # type: ignore[override]  # typeshed combines each family with its addresses
        self,
        host: bytes | str | None,
        port: bytes | str | int | None,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002 - asyncio's name
        proto: int = 0,
        flags: int = 0,
    ) -> list[AddressInfo]:
        return await self._resolver.getaddrinfo(host, port, family, type, proto, flags)

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        return await self._resolver.getnameinfo(sockaddr, flags)

    def add_signal_handler(self, sig: int, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        self._check_closed()
        self._signals.add(sig, callback, args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self._signals.remove(sig)

    # --- descriptors and sockets --------------------------------------------------------------------

    def add_reader(self, fd: "FileDescriptorLike", callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        self._sockops.add(fd, READING, callback, args)

    def remove_reader(self, fd: "FileDescriptorLike") -> bool:
        return self._sockops.remove(fd, READING)

    def add_writer(self, fd: "FileDescriptorLike", callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        self._sockops.add(fd, WRITING, callback, args)

    def remove_writer(self, fd: "FileDescriptorLike") -> bool:
        return self._sockops.remove(fd, WRITING)

    async def sock_recv(self, sock: socket.socket, n: int) -> bytes:
        return await got if type(got := self._sockops.recv(sock, n)) is SocketFuture else got  # type: ignore[return-value]

    async def sock_recv_into(self, sock: socket.socket, buf: "WriteableBuffer") -> int:
        return await got if type(got := self._sockops.recv_into(sock, buf)) is SocketFuture else got  # type: ignore[return-value]

    async def sock_recvfrom(self, sock: socket.socket, bufsize: int) -> tuple[bytes, Any]:
        return await self._sockops.recvfrom(sock, bufsize)

    async def sock_recvfrom_into(self, sock: socket.socket, buf: "WriteableBuffer", nbytes: int = 0) -> tuple[int, Any]:
        return await self._sockops.recvfrom_into(sock, buf, nbytes)

    async def sock_sendall(self, sock: socket.socket, data: "ReadableBuffer") -> None:
        return await got if type(got := self._sockops.sendall(sock, data)) is SocketFuture else got  # type: ignore[return-value]

    async def sock_sendto(self, sock: socket.socket, data: "ReadableBuffer", address: Any) -> int:
        return await self._sockops.sendto(sock, data, address)

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        return await self._sockops.connect(sock, address)

    async def sock_accept(self, sock: socket.socket) -> tuple[socket.socket, Any]:
        return await got if type(got := self._sockops.accept(sock)) is SocketFuture else got  # type: ignore[return-value]

    async def sock_sendfile(
        self, sock: socket.socket, file: Any, offset: int = 0, count: int | None = None, *, fallback: bool | None = True
    ) -> int:
        return await self._files.sock_sendfile(sock, file, offset, count, fallback=bool(fallback))

    # --- endpoints ----------------------------------------------------------------------------------

    # One parameter per line would make this section longer than the rest of the class.
    # fmt: off

    async def create_connection(
        self, protocol_factory: Factory[P], host: Any = None, port: Any = None, *, ssl: SSLOption = None,
        family: int = 0, proto: int = 0, flags: int = 0, sock: socket.socket | None = None, local_addr: Any = None,
        server_hostname: str | None = None, ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None, happy_eyeballs_delay: float | None = None,
        interleave: int | None = None, all_errors: bool = False,
    ) -> tuple[asyncio.Transport, P]:
        return await self._endpoints.connector.create_connection(
            protocol_factory, host, port, ssl=ssl, family=family, proto=proto, flags=flags, sock=sock,
            local_addr=local_addr, server_hostname=server_hostname, ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout, happy_eyeballs_delay=happy_eyeballs_delay,
            interleave=interleave, all_errors=all_errors,
        )

    async def create_server(
        self, protocol_factory: Factory[asyncio.BaseProtocol], host: Any = None, port: Any = None, *,
        family: int = socket.AF_UNSPEC, flags: int = socket.AI_PASSIVE, sock: socket.socket | None = None,
        backlog: int = 100, ssl: SSLOption = None, reuse_address: bool | None = None, reuse_port: bool | None = None,
        keep_alive: bool | None = None, ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None, start_serving: bool = True,
    ) -> asyncio.Server:
        return await self._endpoints.listener.create_server(  # type: ignore[return-value]
            protocol_factory, host, port, family=family, flags=flags, sock=sock, backlog=backlog, ssl=ssl,
            reuse_address=reuse_address, reuse_port=reuse_port, keep_alive=keep_alive,
            ssl_handshake_timeout=ssl_handshake_timeout, ssl_shutdown_timeout=ssl_shutdown_timeout,
            start_serving=start_serving,
        )

    async def create_unix_connection(
        self, protocol_factory: Factory[P], path: Any = None, *, ssl: SSLOption = None,
        sock: socket.socket | None = None, server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None, ssl_shutdown_timeout: float | None = None,
    ) -> tuple[asyncio.Transport, P]:
        return await self._endpoints.unix.create_unix_connection(
            protocol_factory, path, ssl=ssl, sock=sock, server_hostname=server_hostname,
            ssl_handshake_timeout=ssl_handshake_timeout, ssl_shutdown_timeout=ssl_shutdown_timeout,
        )

    async def create_unix_server(
        self, protocol_factory: Factory[asyncio.BaseProtocol], path: Any = None, *,
        sock: socket.socket | None = None, backlog: int = 100, ssl: SSLOption = None,
        ssl_handshake_timeout: float | None = None, ssl_shutdown_timeout: float | None = None,
        start_serving: bool = True, cleanup_socket: bool = CLEANS_UP,
    ) -> asyncio.Server:
        return await self._endpoints.unix.create_unix_server(  # type: ignore[return-value]
            protocol_factory, path, sock=sock, backlog=backlog, ssl=ssl, ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout, start_serving=start_serving, cleanup_socket=cleanup_socket,
        )

    async def create_datagram_endpoint(  # type: ignore[override]  # asyncio removed reuse_address in 3.11
        self, protocol_factory: Factory[P], local_addr: Any = None, remote_addr: Any = None, *, family: int = 0,
        proto: int = 0, flags: int = 0, reuse_port: bool | None = None, allow_broadcast: bool | None = None,
        sock: socket.socket | None = None,
    ) -> tuple[asyncio.DatagramTransport, P]:
        return await self._endpoints.datagrams.create_datagram_endpoint(
            protocol_factory, local_addr, remote_addr, family=family, proto=proto, flags=flags, reuse_port=reuse_port,
            allow_broadcast=allow_broadcast, sock=sock,
        )

    async def connect_accepted_socket(
        self, protocol_factory: Factory[P], sock: socket.socket, *, ssl: SSLOption = None,
        ssl_handshake_timeout: float | None = None, ssl_shutdown_timeout: float | None = None,
    ) -> tuple[asyncio.Transport, P]:
        return await self._endpoints.opener.connect_accepted_socket(
            protocol_factory, sock, ssl=ssl, ssl_handshake_timeout=ssl_handshake_timeout,
            ssl_shutdown_timeout=ssl_shutdown_timeout,
        )

    async def connect_read_pipe(self, protocol_factory: Factory[P], pipe: Any) -> tuple[asyncio.ReadTransport, P]:
        return await self._endpoints.pipes.connect_read_pipe(protocol_factory, pipe)

    async def connect_write_pipe(self, protocol_factory: Factory[P], pipe: Any) -> tuple[asyncio.WriteTransport, P]:
        return await self._endpoints.pipes.connect_write_pipe(protocol_factory, pipe)

    async def subprocess_exec(
        self, protocol_factory: Factory[P], program: Any, *args: Any, stdin: "FileDescriptorLike | None" = PIPE,
        stdout: "FileDescriptorLike | None" = PIPE, stderr: "FileDescriptorLike | None" = PIPE,
        universal_newlines: bool = False, shell: bool = False, bufsize: int = 0, encoding: str | None = None,
        errors: str | None = None, text: bool | None = None, **kwargs: Any,
    ) -> tuple[asyncio.SubprocessTransport, P]:
        return await self._endpoints.processes.subprocess_exec(
            protocol_factory, (program, *args), (stdin, stdout, stderr), shell,
            (bufsize, universal_newlines, text, encoding, errors), kwargs,
        )

    async def subprocess_shell(
        self, protocol_factory: Factory[P], cmd: bytes | str, *, stdin: "FileDescriptorLike | None" = PIPE,
        stdout: "FileDescriptorLike | None" = PIPE, stderr: "FileDescriptorLike | None" = PIPE,
        universal_newlines: bool = False, shell: bool = True, bufsize: int = 0, encoding: str | None = None,
        errors: str | None = None, text: bool | None = None, **kwargs: Any,
    ) -> tuple[asyncio.SubprocessTransport, P]:
        return await self._endpoints.processes.subprocess_shell(
            protocol_factory, cmd, (stdin, stdout, stderr), shell,
            (bufsize, universal_newlines, text, encoding, errors), kwargs,
        )

    async def start_tls(
        self, transport: asyncio.WriteTransport, protocol: asyncio.BaseProtocol, sslcontext: "SSLContext", *,
        server_side: bool = False, server_hostname: str | None = None, ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
    ) -> asyncio.Transport | None:
        return await self._endpoints.tls.start_tls(
            transport, protocol, sslcontext,  # type: ignore[arg-type]  # it refuses one that cannot be read
            server_side=server_side, server_hostname=server_hostname,
            ssl_handshake_timeout=ssl_handshake_timeout, ssl_shutdown_timeout=ssl_shutdown_timeout,
        )

    async def sendfile(
        self, transport: asyncio.WriteTransport, file: IO[bytes], offset: int = 0, count: int | None = None, *,
        fallback: bool = True,
    ) -> int:
        return await self._endpoints.files.sendfile(transport, file, offset, count, fallback=fallback)

    # fmt: on


def _stop_loop_of(future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and isinstance(future.exception(), (SystemExit, KeyboardInterrupt)):
        return  # the exception itself ends the run
    future.get_loop().stop()
