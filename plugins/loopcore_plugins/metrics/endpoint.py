"""The endpoint: an HTTP server that Prometheus scrapes, and that a platform probes (plugin `watchdog`).

There is one for all loops and plugins that name the same address: it opens with the first, and closes with the last.
It runs in separate threads, so a stalled loop is scraped like any other. After a fork the child has none until it makes
one.

One thread accepts, and each client has another while it is served. The number of clients is bounded, and so is a
client's time, from its connection to the end of the answer: the accepting thread closes connections that take
longer. (A socket's timeout starts again with each byte that trickles in.)
"""

import errno
import logging
import math
import os
import socket
import socketserver
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from loopcore.errors import UsageError
from loopcore.log import plugin_logger

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

Routes: TypeAlias = "Mapping[str, WSGIApplication]"
"""WSGI applications by path. They are called in the endpoint's threads."""

logger = plugin_logger.getChild("metrics")

REQUEST_TIMEOUT: Final = 10.0
"""Seconds that a client has for a whole request and its answer: Prometheus' default timeout."""
MOST_CLIENTS: Final = 16
"""Clients that are served at a time; others are asked to retry."""
ACCEPT_PAUSE: Final = 0.1
"""Seconds to pause after a connection could not be accepted."""
SWEEP_INTERVAL: Final = 0.2
"""Seconds between looks for clients whose thread has ended: their connections are closed then."""

_REFUSAL: Final = (
    b"HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 18\r\n"
    b"Retry-After: 10\r\nConnection: close\r\n\r\ntoo many clients\r\n"
)


class _Client(NamedTuple):
    """A client that is being served."""

    sock: socket.socket
    """A duplicate: the thread's socket may be closed at any moment, and its descriptor reused by another connection."""
    deadline: float
    """When the connection is closed, in time.monotonic; infinite once it was."""


class BoundedServer(socketserver.ThreadingMixIn, HTTPServer):
    """A server with at most `MOST_CLIENTS`, and `REQUEST_TIMEOUT` for each. Thread: the accepting one."""

    daemon_threads = True
    request_queue_size = 64  # bursts of connections are refused with an answer, not by a full queue
    allow_reuse_port = False  # on by default from Python 3.14: two workers would share one port

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._served: dict[socket.socket, _Client] = {}
        """By the thread's socket."""
        self._ended: deque[socket.socket] = deque()
        """Clients whose threads have ended. Lock-free: a collection under a lock may close a loop, and wait for us."""
        super().__init__((host, port), handler)

    def server_bind(self) -> None:
        # Skips the base class's look-up of the host name, which may take long.
        socketserver.TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), port

    def service_actions(self) -> None:
        """Close clients whose time is up; `serve_forever` calls it."""
        self.hang_up()

    def hang_up(self) -> float | None:
        """Close clients whose time is up; return the seconds until the next look, or None without a client."""
        self._sweep()
        now = time.monotonic()
        for request, client in self._served.items():
            if client.deadline <= now:
                # It counts until its thread has seen the end.
                self._served[request] = client._replace(deadline=math.inf)
                with suppress(OSError):  # the client was faster
                    client.sock.shutdown(socket.SHUT_RDWR)
        earliest = min((client.deadline for client in self._served.values()), default=math.inf)
        return min(max(earliest - now, 0.0), SWEEP_INTERVAL) if self._served else None

    def _sweep(self) -> None:
        while self._ended:
            client = self._served.pop(self._ended.popleft(), None)
            if client is not None:
                client.sock.close()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            time.sleep(ACCEPT_PAUSE)  # no descriptor is left, and the connection stays pending
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        self._sweep()
        if len(self._served) < MOST_CLIENTS:
            self._served[request] = _Client(request.dup(), time.monotonic() + REQUEST_TIMEOUT)
            super().process_request(request, client_address)
        else:
            self.refuse(request, client_address)

    def refuse(self, request: Any, client_address: Any) -> None:
        """Answer a client that is one too many."""
        request.setblocking(False)
        with suppress(OSError):
            request.send(_REFUSAL)
            request.recv(65536)  # closing with unread data sends a reset, and the answer may be lost
        self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._ended.append(request)

    def server_close(self) -> None:
        super().server_close()
        for client in list(self._served.values()):  # the parent's threads have their own copies
            client.sock.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("%s was not answered", client_address, exc_info=sys.exc_info())


class _Server(BoundedServer, WSGIServer):
    def __init__(self, host: str, port: int, app: "WSGIApplication") -> None:
        self.refused = 0
        super().__init__(host, port, _Handler)
        self.set_app(app)

    def server_bind(self) -> None:
        super().server_bind()
        self.setup_environ()

    def serve_next(self) -> None:
        """Wait for the next client, or until the next one's time is up; handle either."""
        self.timeout = self.hang_up()
        self.handle_request()

    def refuse(self, request: Any, client_address: Any) -> None:
        if not self.refused:
            logger.warning("%d clients are being served, more are refused: %s", MOST_CLIENTS, client_address)
        self.refused += 1
        super().refuse(request, client_address)

    def drop(self) -> None:
        """In a forked child: close the copies."""
        self.server_close()
        for request in self._served:
            if request.fileno() >= 0:
                os.close(request.detach())  # otherwise the files of its handler keep it open


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in the base class
        """Write nothing: a line for each scrape is too much."""


class Endpoint:
    """An HTTP server for the routes of its users. Raises OSError if no port of `ports` is free."""

    def __init__(self, host: str, ports: range) -> None:
        self._server = _bind(host, ports, self._answer)
        self.users: list[Routes] = []
        """The routes of each user; the earliest user that has a path answers it."""
        self._is_stopping = False
        self._thread = threading.Thread(target=self._serve, name="loopcore-metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self._server.server_address[:2]
        return str(host), port

    def stop(self) -> None:
        """Close the port. Answers under way are finished."""
        self._is_stopping = True
        try:
            # On some systems nothing else wakes a thread in accept(2) at once.
            socket.create_connection(self.address, REQUEST_TIMEOUT).close()
        except OSError:
            self._server.server_close()  # the thread is a daemon, and ends with the process
        else:
            if self._thread is not threading.current_thread():  # unless a dropped loop is collected in that thread
                self._thread.join()

    def drop(self) -> None:
        """In a forked child: close the copies of the port and its connections."""
        self._server.drop()

    def _answer(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        users = self.users.copy()
        for routes in users:
            app = routes.get(environ["PATH_INFO"])
            if app is not None:
                return app(environ, start_response)
        known = " ".join(sorted({path for routes in users for path in routes}))
        start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"not found; the paths of this port are {known}\n".encode()]

    def _serve(self) -> None:
        while not self._is_stopping:
            self._server.serve_next()
        self._server.server_close()


def _bind(host: str, ports: range, app: "WSGIApplication") -> _Server:
    for port in ports[:-1]:
        try:
            return _Server(host, port, app)
        except OSError:
            continue
    return _Server(host, ports[-1], app)


# Reentrant: a garbage collection under it may close a dropped loop, which releases its endpoint.
_lock = threading.RLock()
_endpoints: dict[tuple[str, range], Endpoint] = {}
_ending: dict[tuple[str, range], threading.Event] = {}
"""Those that are being stopped, and have their port until the event is set."""


def port_range(plugin: str, port: int, ports: int) -> range:
    """Return the `ports` ports from `port` on, options of `plugin`. Raises UsageError if they are out of range."""
    if 0 <= port <= 65535 and 1 <= ports <= 65536 - port:
        return range(port, port + ports)
    options = f"port={port}" if ports == 1 else f"port={port} with ports={ports}"
    raise UsageError(f"{plugin}: {options} is out of range: 0 to 65535; for example port=9100")


def serve(what: str, host: str, ports: range, routes: Routes, log: logging.Logger) -> Endpoint | None:
    """Return `open_endpoint(host, ports, routes)`, or None if no port can be opened; either is logged."""
    try:
        endpoint = open_endpoint(host, ports, routes)
    except OSError as exc:
        last = "" if len(ports) == 1 else f" to {ports[-1]}"
        hint = ""
        if exc.errno == errno.EADDRINUSE:
            hint = "; set ports= to the number of workers" if len(ports) == 1 else "; raise ports="
        log.error("%s are not served at %s:%s%s (%s)%s", what, host, ports[0], last, exc, hint)
        return None
    paths = " and ".join(path for path in routes if path != "/")
    log.info("%s are served at http://%s:%s%s", what, *endpoint.address, paths)
    return endpoint


def open_endpoint(host: str, ports: range, routes: Routes) -> Endpoint:
    """Return the endpoint at this address, made if there is none, with `routes` added.

    The caller releases it with `close_endpoint`. With several `ports`, the first free one is used. Waits at most
    `REQUEST_TIMEOUT` seconds for an endpoint that is being closed. Raises OSError if none is free. Thread: any.
    """
    has_patience = True
    while True:
        with _lock:
            ending = _ending.get((host, ports)) if has_patience else None
            if ending is None:
                endpoint = _endpoints.get((host, ports))
                if endpoint is None:
                    endpoint = _endpoints[host, ports] = Endpoint(host, ports)
                endpoint.users.append(routes)
                return endpoint
        has_patience = ending.wait(REQUEST_TIMEOUT)


def close_endpoint(endpoint: Endpoint, routes: Routes) -> None:
    """Release an endpoint that was opened with `routes`; the last release closes it."""
    with _lock:
        endpoint.users.remove(routes)
        is_last = not endpoint.users and endpoint in _endpoints.values()
        if is_last:
            key = next(key for key, each in _endpoints.items() if each is endpoint)
            del _endpoints[key]
            ended = _ending[key] = threading.Event()
    if is_last:
        # Without the lock: its thread, which is waited for, may have to close another endpoint in a finalizer.
        try:
            endpoint.stop()
        finally:
            with _lock:
                _ending.pop(key, None)
            ended.set()


def _reset_in_child() -> None:
    """Reset in a forked child: the threads do not exist there, and the lock may be held."""
    global _lock
    _lock = threading.RLock()
    for endpoint in _endpoints.values():
        endpoint.drop()
    _endpoints.clear()
    _ending.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
