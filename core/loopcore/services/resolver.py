"""The resolver: names to addresses and back, without blocking the loop.

A name may take seconds, so it is looked up in the executor. A literal address needs no look-up: it is answered at
once. The usual case, a numeric host and one kind of socket, is in `loopcore.services.literals`; for the others (scope
ids, `127.1`, the list of socket types, the order of results) the C library's own getaddrinfo(3) is called with
AI_NUMERICHOST and AI_NUMERICSERV, which forbid look-ups. If it fails with these flags, the host is not a literal or the
arguments are wrong; either way the executor's call decides, so errors are the same, too.
"""

import asyncio
import functools
import logging
import socket
from collections.abc import Callable
from typing import Any, Protocol

from loopcore.log import logger
from loopcore.services.literals import AddressInfo, HostName, Port, resolve_literal

_NUMERIC_NAMES = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV


class ResolverHost(Protocol):
    """The loop as this module uses it."""

    slow_callback_duration: float

    def run_in_executor(self, executor: None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]: ...

    def time(self) -> float: ...

    def get_debug(self) -> bool: ...


class Resolver:
    """getaddrinfo and getnameinfo of one loop. Thread: the loop's own."""

    __slots__ = ("_host",)

    def __init__(self, host: ResolverHost) -> None:
        self._host = host

    async def getaddrinfo(
        self,
        host: HostName,
        port: Port,
        family: int = 0,
        type: int = 0,  # noqa: A002 - asyncio's name
        proto: int = 0,
        flags: int = 0,
    ) -> list[AddressInfo]:
        """Return the result of `socket.getaddrinfo`; for numeric addresses, without a thread."""
        answer = resolve_literal(host, port, family, type, proto, flags)
        if answer is not None:
            return answer
        look_up = self._timed(socket.getaddrinfo) if self._host.get_debug() else socket.getaddrinfo
        found: list[AddressInfo] = await self._host.run_in_executor(
            None, look_up, host, port, family, type, proto, flags
        )
        return found

    async def getnameinfo(self, sockaddr: tuple[Any, ...], flags: int = 0) -> tuple[str, str]:
        """Return the result of `socket.getnameinfo`; if `flags` asks for numbers only, without a thread."""
        if flags & _NUMERIC_NAMES == _NUMERIC_NAMES:
            return socket.getnameinfo(sockaddr, flags)
        names: tuple[str, str] = await self._host.run_in_executor(None, socket.getnameinfo, sockaddr, flags)
        return names

    def _timed(self, look_up: Callable[..., Any]) -> Callable[..., Any]:
        # Debug mode only: a slow name server is the usual reason for a slow start.
        @functools.wraps(look_up)
        def ask(*question: Any) -> Any:
            started = self._host.time()
            answer = look_up(*question)
            elapsed = self._host.time() - started
            level = logging.INFO if elapsed >= self._host.slow_callback_duration else logging.DEBUG
            logger.log(level, "Getting address info %s took %.3fms: %r", question, elapsed * 1e3, answer)
            return answer

        return ask
