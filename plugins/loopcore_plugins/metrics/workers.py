"""The metrics of several worker processes on one page, `/metrics/all`: the worker that is asked asks the others.

Workers take a port each from one range (`ports`), so each knows where the others may be. The page has every sample of
every worker, with the label `worker`, its port: sums over workers are Prometheus' business, as are those over loops.
A label `worker` of the application's own becomes `exported_worker`, as Prometheus would rename it.
"""

import errno
import http.client
import io
import os
import socket
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from loopcore.log import plugin_logger

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

logger = plugin_logger.getChild("metrics")

PATH: Final = "/metrics/all"
TIMEOUT: Final = 2.0
"""Seconds that a worker has for its whole answer; one that needs more is left out, as Prometheus would leave it out."""
LARGEST: Final = 4 << 20
"""Bytes of an answer; a worker that sends more is left out. Parsing so many takes seconds and 100 MiB."""
LONGEST_LINE: Final = 8192
"""Characters of a line; a worker whose answer has a longer one is left out."""
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}


def page_of_workers(host: str, ports: range) -> "WSGIApplication":
    """Return the application behind `PATH`. `host` and `ports` are the options of the plugin."""

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        registry = CollectorRegistry()
        registry.register(_Workers(_ANYWHERE.get(host, host), ports))
        start_response("200 OK", [("Content-Type", CONTENT_TYPE_LATEST)])
        return [generate_latest(registry)]

    return answer


class _Workers:
    """A prometheus_client collector of the answers of all workers."""

    def __init__(self, host: str, ports: range) -> None:
        self._host = host
        self._ports = ports

    def describe(self) -> list[Any]:
        """Return nothing: the names are known when the workers have answered."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield each family of all workers once. They are asked together, so several stuck ones cost one wait."""
        with ThreadPoolExecutor(len(self._ports)) as pool:
            pages = list(pool.map(self._families, self._ports))
        families: dict[str, Any] = {}
        for port, page in zip(self._ports, pages, strict=True):
            for family in page:
                known = families.setdefault(family.name, family)
                samples = [each._replace(labels=_labelled(each.labels, port)) for each in family.samples]
                if known is family:
                    known.samples = samples
                else:
                    known.samples.extend(samples)
        yield from families.values()

    def _families(self, port: int) -> list[Any]:
        text = fetch(self._host, port)
        try:
            return list(text_string_to_metric_families(text))
        except (ValueError, IndexError):  # what the parser raises
            logger.warning(
                "the metrics of the worker at port %d cannot be parsed and are left out", port, exc_info=True
            )
            return []


def _labelled(labels: dict[str, str], port: int) -> dict[str, str]:
    own = {"exported_worker" if name == "worker" else name: value for name, value in labels.items()}
    return {**own, "worker": str(port)}


class _Received(io.BytesIO):
    """An answer as http.client reads one."""

    def makefile(self, mode: str) -> "_Received":
        return self


def fetch(host: str, port: int) -> str:
    """Return the metrics of the worker at `port`; an empty string if there is none, or another program."""
    try:
        answer = http.client.HTTPResponse(_Received(_receive(host, port)))  # type: ignore[arg-type]
        answer.begin()
        text = answer.read().decode("utf-8", "replace")
    except (OSError, ValueError, http.client.HTTPException):
        return ""
    # The time that parsing takes grows with the square of the length of a line.
    is_short = all(len(line) <= LONGEST_LINE for line in text.split("\n"))
    return text if "loopcore_eventloop_" in text and is_short else ""


def _receive(host: str, port: int) -> bytes:
    """Return the whole answer, which ends the connection. Raises OSError, also if it is too late or too large."""
    deadline = time.monotonic() + TIMEOUT
    received = bytearray()
    with socket.create_connection((host, port), TIMEOUT) as sock:
        sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        while len(received) <= LARGEST:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            sock.settimeout(left)
            part = sock.recv(1 << 16)
            if not part:
                return bytes(received)
            received += part
    raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
