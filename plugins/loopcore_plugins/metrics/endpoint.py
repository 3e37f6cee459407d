"""The endpoint: an HTTP server that Prometheus scrapes.

It is one for all loops that name the same address: made with the first, closed with the last. It runs in threads beside
the loops, so a stalled loop is scraped like any other. After a fork the child has none until it makes one.
"""

import os
import socket
import socketserver
import sys
import threading
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from loopcore.log import plugin_logger
from loopcore_plugins.metrics.prometheus import join_registry, make_app

logger = plugin_logger.getChild("metrics")

REQUEST_TIMEOUT = 10.0
"""Seconds after which a client that asks for nothing is hung up on."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_port = False  # Python 3.14 has it on: two workers would take turns at one port

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.set_app(make_app())

    def server_bind(self) -> None:
        # Without the look-up of a name for the address, which may take its time.
        socketserver.TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), port
        self.setup_environ()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("%s was not answered", client_address, exc_info=sys.exc_info())


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in the base class
        """Write nothing: scrapes are not worth a line each."""


class Endpoint:
    """An HTTP server for prometheus_client's default registry. Raises OSError if no port of `ports` is free."""

    def __init__(self, host: str, ports: range) -> None:
        self._server = _bind(host, ports)
        self.users = 0
        self._is_stopping = False
        self._thread = threading.Thread(target=self._serve, name="loopcore-metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        host, port = self._server.server_address[:2]
        return str(host), port

    def stop(self) -> None:
        """Close the port. Answers on their way are finished."""
        self._is_stopping = True
        try:
            # Nothing else wakes a thread in accept at once on every system.
            socket.create_connection(self.address, REQUEST_TIMEOUT).close()
        except OSError:
            self._server.server_close()  # it is a daemon, and ends with the process
        else:
            if self._thread is not threading.current_thread():  # where a dropped loop may be collected
                self._thread.join()

    def drop(self) -> None:
        """In a forked child: close the copy of the port."""
        self._server.socket.close()

    def _serve(self) -> None:
        while not self._is_stopping:
            self._server.handle_request()
        self._server.server_close()


def _bind(host: str, ports: range) -> _Server:
    for port in ports[:-1]:
        try:
            return _Server(host, port)
        except OSError:
            continue
    return _Server(host, ports[-1])


# Reentrant: a garbage collection within may close a loop that was dropped, and give its endpoint back.
_lock = threading.RLock()
_endpoints: dict[tuple[str, range], Endpoint] = {}


def open_endpoint(host: str, ports: range) -> Endpoint:
    """Return the endpoint at this address, made if there is none; the caller gives it to `close_endpoint` in the end.

    Several `ports`: the first that is free. Raises OSError if none is.
    """
    with _lock:
        join_registry()
        endpoint = _endpoints.get((host, ports))
        if endpoint is None:
            endpoint = _endpoints[host, ports] = Endpoint(host, ports)
        endpoint.users += 1
        return endpoint


def close_endpoint(endpoint: Endpoint) -> None:
    """Give an endpoint back."""
    with _lock:
        endpoint.users -= 1
        if endpoint.users == 0 and endpoint in _endpoints.values():
            del _endpoints[next(key for key, each in _endpoints.items() if each is endpoint)]
            endpoint.stop()


def _begin_anew() -> None:
    """In a forked child: the threads are not there, and the lock is as it happened to be."""
    global _lock
    _lock = threading.RLock()
    for endpoint in _endpoints.values():
        endpoint.drop()
    _endpoints.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
