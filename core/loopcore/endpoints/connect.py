"""Connecting over TCP: from a name to an open transport.

The steps: look up the names, order the addresses, try them (one after the other, or in a race), and hand the
connected socket to the opener. The socket of an attempt that failed, lost or was cancelled is closed.
"""

import contextlib
import socket
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from loopcore.endpoints.addresses import interleave as interleave_families
from loopcore.endpoints.addresses import resolve
from loopcore.endpoints.needs import Connection, EndpointHost, ProtocolFactory
from loopcore.endpoints.opener import StreamOpener, require_stream
from loopcore.endpoints.race import race
from loopcore.endpoints.tls import SslArgument, TlsSettings, refuse_tls_socket, tls_settings
from loopcore.log import logger
from loopcore.services.literals import AddressInfo, HostName, Port


def bind_error(error: OSError, address: object) -> OSError:
    """Return `error` with the address in its text, in the wording of the running Python's asyncio."""
    # gh-121913 (3.12.5): an OSError that Python code created may have no strerror, so asyncio switched to str().
    reason = str(error) if sys.version_info >= (3, 12, 5) else error.strerror or str(error)
    return OSError(error.errno, f"error while attempting to bind on address {address!r}: {reason.lower()}")


class Connector:
    """`create_connection`. Thread: the loop's own. Errors and their texts are asyncio's."""

    def __init__(self, host: EndpointHost, opener: StreamOpener) -> None:
        self._host = host
        self._opener = opener

    async def create_connection(
        self,
        protocol_factory: ProtocolFactory,
        host: HostName = None,
        port: Port = None,
        *,
        ssl: SslArgument = None,
        family: int = 0,
        proto: int = 0,
        flags: int = 0,
        sock: socket.socket | None = None,
        local_addr: Any = None,
        server_hostname: str | None = None,
        ssl_handshake_timeout: float | None = None,
        ssl_shutdown_timeout: float | None = None,
        happy_eyeballs_delay: float | None = None,
        interleave: int | None = None,
        all_errors: bool = False,
    ) -> Connection:
        """Connect to host and port, or take over a connected `sock`; return the transport and the protocol.

        `happy_eyeballs_delay` is in seconds. With `all_errors`, a failure raises an ExceptionGroup with every
        attempt's error (in asyncio since 3.12).
        """
        tls = _client_tls(ssl, host, server_hostname, ssl_handshake_timeout, ssl_shutdown_timeout)
        if sock is not None:
            refuse_tls_socket(sock)
        if happy_eyeballs_delay is not None and interleave is None:
            interleave = 1
        ours = host is not None or port is not None
        if ours:
            if sock is not None:
                raise ValueError("host/port and sock can not be specified at the same time")
            look_up = partial(resolve, self._host, family=family, proto=proto, flags=flags)
            infos = _not_empty(await look_up((host, port)))
            local_infos = None if local_addr is None else _not_empty(await look_up(local_addr))
            if interleave:
                infos = interleave_families(infos, interleave)
            sock = await self._connect_any(infos, local_infos, happy_eyeballs_delay, all_errors)
        elif sock is None:
            raise ValueError("host and port was not specified and no sock specified")
        else:
            require_stream(sock)
        transport, protocol = await self._opener.open(sock, protocol_factory, tls, ours=ours)
        if self._host.get_debug():
            shown = transport.get_extra_info("socket")
            logger.debug("%r connected to %s:%r: (%r, %r)", shown, host, port, transport, protocol)
        return transport, protocol

    async def _connect_any(
        self,
        infos: Sequence[AddressInfo],
        local_infos: Sequence[AddressInfo] | None,
        delay: float | None,
        all_errors: bool,
    ) -> socket.socket:
        """Return a socket connected to one of the addresses, or raise the errors of the attempts."""
        errors: list[list[OSError]] = [[] for _ in infos]
        attempts = [partial(self._connect_one, *args, local_infos) for args in zip(infos, errors, strict=True)]
        if delay is not None:
            won = await race(attempts, delay)
            if won is not None:
                return won
        else:
            while attempts:
                try:
                    return await attempts.pop(0)()
                except OSError:
                    continue  # it is in `errors`
        try:
            raise _combined([error for of_one in errors for error in of_one], all_errors)
        finally:
            # The exception's traceback keeps this frame, and the frame would keep the exception.
            del errors, attempts

    async def _connect_one(
        self, info: AddressInfo, errors: list[OSError], local_infos: Sequence[AddressInfo] | None
    ) -> socket.socket:
        """Return a socket connected to one address; an OSError is also appended to `errors`."""
        family, kind, proto, _, address = info
        sock: socket.socket | None = None
        try:
            sock = socket.socket(family=family, type=kind, proto=proto)
            sock.setblocking(False)
            if local_infos is not None:
                _bind_to_one(sock, local_infos, errors)
            await self._host.sock_connect(sock, address)
        except BaseException as exc:
            if sock is not None:
                with contextlib.suppress(OSError):  # it must not hide what is raised here
                    sock.close()
            if isinstance(exc, OSError):
                errors.append(exc)
            raise
        finally:
            del errors
        return sock


def _client_tls(
    ssl: SslArgument,
    host: Any,
    server_hostname: str | None,
    handshake_timeout: float | None,
    shutdown_timeout: float | None,
) -> TlsSettings | None:
    if ssl and server_hostname is None:
        # '' is valid: it disables the check of the host name.
        if not host:
            raise ValueError("You must set server_hostname when using ssl without a host")
        server_hostname = host
    return tls_settings(
        ssl,
        server_hostname=server_hostname,
        handshake_timeout=handshake_timeout,
        shutdown_timeout=shutdown_timeout,
    )


def _not_empty(infos: list[AddressInfo]) -> list[AddressInfo]:
    if not infos:
        raise OSError("getaddrinfo() returned empty list")
    return infos


def _bind_to_one(sock: socket.socket, local_infos: Sequence[AddressInfo], errors: list[OSError]) -> None:
    """Bind to the first available local address of the socket's family.

    If there is none, raises the last OSError; the ones before it are appended to `errors`.
    """
    refusals: list[OSError] = []
    for family, _, _, _, address in local_infos:
        if family != sock.family:
            continue
        try:
            sock.bind(address)
        except OSError as exc:
            refusals.append(bind_error(exc, address))
        else:
            errors.extend(refusals)
            return
    if not refusals:
        raise OSError(f"no matching local address with family={sock.family!r} found")
    last = refusals.pop()
    errors.extend(refusals)
    raise last


def _combined(errors: list[OSError], all_errors: bool) -> Exception:
    """Return the exception to raise for the errors of all attempts."""
    if all_errors:
        return ExceptionGroup("create_connection failed", errors)
    texts = [str(error) for error in errors]
    if len(set(texts)) == 1:
        return errors[0]
    return OSError("Multiple exceptions: {}".format(", ".join(texts)))
