"""Serving: the page, live, for a browser on this machine.

Only the command listens, on the loopback and until it ends; the watched process knows nothing of it. Every user of the
machine, and every page in the user's browser, can connect to such a port. So each request must have the token that the
command printed, and name this machine in its Host header: a page of another host, whose name was made to lead here
(DNS rebinding), has its own name there. Only GET is served, and nothing changes anything in the process. The number of
clients and the time of each are bounded, as those of the endpoint of metrics.
"""

import secrets
import select
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from loopcore.errors import LoopcoreError, UsageError
from loopcore_plugins.inspect.client import connect
from loopcore_plugins.inspect.figures import compare
from loopcore_plugins.inspect.observer import METER, PARTS
from loopcore_plugins.inspect.page.contents import describe, describe_task, encode, make_page
from loopcore_plugins.inspect.places import Address
from loopcore_plugins.inspect.protocol import Message
from loopcore_plugins.inspect.sampler import Question, Sampler, watch
from loopcore_plugins.metrics.endpoint import BoundedServer

HOST: Final = "127.0.0.1"
NAMES: Final = frozenset((HOST, "localhost", "[::1]"))
"""The names in a Host header under which a browser reaches this machine, with any port: it may be forwarded."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of each answer. The rest of the policy is in the page: it has the hashes of its script and style."""


def serve(address: Address, *, interval: float, light: bool, port: int, tell: Callable[[str], None]) -> LoopcoreError:
    """Serve the page of the loop at `address` until the loop ends; `tell` is called with the page's address.

    `port` 0 is any that is free. Returns how the loop ended. Raises UsageError if the port is in use, GoneError.
    """
    with connect(address) as client:
        watch(client, *((METER,) if light else PARTS))
        with Sampler(client, interval) as sampler, PageServer(sampler, port) as server:
            sampler.ask(Question("sites"))
            thread = threading.Thread(target=server.serve_forever, name="page", daemon=True)
            thread.start()
            try:
                tell(server.url)
                while sampler.failure is None:
                    select.select([sampler.arrival], [], [])
                    sampler.clear()
            finally:
                server.shutdown()
                thread.join()
            return sampler.failure


class PageServer(BoundedServer):
    """Serves the page of a `sampler` to requests with `token`. Raises UsageError for a port in use."""

    def __init__(self, sampler: Sampler, port: int) -> None:
        self.sampler = sampler
        self.token = secrets.token_urlsafe()
        try:
            super().__init__(HOST, port, _Handler)
        except (OSError, OverflowError) as exc:
            raise UsageError(f"port {port} cannot be used: {exc}; leave --port out for a free one") from None

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_address[1]}/?token={self.token}"

    def figures(self) -> Message | None:
        """Return the figures of the last minutes; None if there are none yet."""
        latest, samples = self.sampler.latest, self.sampler.samples
        if latest is None or not latest.history:
            return None
        sites = [] if latest.reply is None else latest.reply.answer.get("sites", [])
        whole = compare(samples[0], samples[-1])
        return describe(self.sampler.client.greeting, latest.history, whole, sites, live=True)

    def task(self, number: int) -> Message:
        """Return the task with that id. Raises UsageError if there is none, GoneError."""
        with connect(self.sampler.client.address) as client:  # the sampler's is in use
            return describe_task(client.ask("task", task=number))


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version = "loopcore"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a request that is allowed."""
        try:
            url = urlsplit(self.path)
        except ValueError as exc:
            self._refuse(HTTPStatus.BAD_REQUEST, str(exc))
            return
        query = parse_qs(url.query)
        token = query.get("token", [""])[0]
        if self._host() not in NAMES:
            self._refuse(
                HTTPStatus.FORBIDDEN, f"this page is served as {HOST} and localhost only, not under another name"
            )
        elif not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._refuse(
                HTTPStatus.FORBIDDEN,
                "the token is missing or wrong; open the address that `loopcore top --page` has printed, as a whole",
            )
        elif url.path == "/":
            page = make_page(self.server.figures(), self.server.sampler.interval)
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", page)
        elif url.path == "/figures":
            self._send_figures()
        elif url.path == "/task":
            self._send_task(query.get("id", [""])[0])
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there are only /, /figures and /task")

    def parse_request(self) -> bool:
        """Return whether to answer the request: only a GET; anything else is refused here."""
        if not super().parse_request():
            return False
        if self.command != "GET":
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is served: nothing can be changed here", Allow="GET")
            return False
        return True

    def log_message(self, *arguments: object) -> None:
        """Log nothing: requests have the token."""

    def _host(self) -> str:
        """Return the Host header without the port, lower-case; empty if there is none, or several."""
        hosts = self.headers.get_all("Host", [])
        name, _, port = hosts[0].lower().rpartition(":") if len(hosts) == 1 else ("", "", "")
        return name if port.isdecimal() else "".join(hosts).lower() if len(hosts) == 1 else ""

    def _send_figures(self) -> None:
        figures = self.server.figures()
        if figures is None:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "there are no figures yet")
        else:
            self._send(HTTPStatus.OK, "application/json", encode(figures))

    def _send_task(self, number: str) -> None:
        try:
            task = self.server.task(int(number))
        except (ValueError, LoopcoreError) as exc:
            self._refuse(HTTPStatus.NOT_FOUND, str(exc))
        else:
            self._send(HTTPStatus.OK, "application/json", encode(task))

    def _refuse(self, status: HTTPStatus, reason: str, **headers: str) -> None:
        self._send(status, "application/json", encode({"error": reason}) + "\n", **headers)

    def _send(self, status: HTTPStatus, kind: str, text: str, **headers: Any) -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in (_HEADERS | headers).items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
