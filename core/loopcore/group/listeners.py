"""The listening sockets of a group: one for each member, owned by the group.

The sockets are made here, and the members get copies. So a member that replaces another takes over the queue of
connections that its predecessor had not accepted, and port 0 is the same port for all.

Over TCP on Linux every member has its own socket, by SO_REUSEPORT: the kernel spreads connections over their queues,
and an accept wakes one loop. Other systems lack that option, or give all connections to one of the sockets; there, and
for Unix sockets, the members share one socket. SO_REUSEPORT also lets another program of the same user bind the port,
unnoticed. So a fixed port is bound without it first: a port that is taken is an error, as in asyncio.

Thread: the supervisor's.
"""

import asyncio
import os
import socket
import stat
import sys
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, count
from typing import Any

from loopcore.group.errors import GroupError
from loopcore.group.host import Host
from loopcore.group.load import SERVERS
from loopcore.group.part import Listening, ListenRequest


class ServerSockets:
    """The sockets of one server: those of each member, or those that all share."""

    def __init__(self, number: int, members: Sequence[list[socket.socket] | None], shared: list[socket.socket]) -> None:
        self.number = number
        self.members = list(members)
        self.shared = shared
        self.users: set[Host] = set()

    def of(self, index: int) -> list[socket.socket]:
        """Return the sockets of a member; makes them again if it has given them up."""
        if self.shared:
            return self.shared
        found = self.members[index]
        if found is None:
            pattern = next(each for each in self.members if each is not None)
            found = self.members[index] = bind_all_like([(sock, sock.getsockname()) for sock in pattern])
        return found

    def give_up(self, user: Host) -> bool:
        """Close a member's sockets, unless one that replaces it has them; return whether the server is still used."""
        self.users.discard(user)
        own = self.members[user.index]
        if self.users and own is not None and all(other.index != user.index for other in self.users):
            close_all(own)
            self.members[user.index] = None
        return bool(self.users)

    def close(self) -> None:
        """Close everything."""
        close_all(self.shared)
        for own in self.members:
            close_all(own or [])


_IS_ENDING = "the group is ending and makes no more servers; see Member.is_draining"


class Listeners:
    """All servers of a group."""

    def __init__(self, count: int, given: Sequence[socket.socket]) -> None:
        self._count = count
        self._given = given
        self._making: dict[ListenRequest, asyncio.Task[ServerSockets]] = {}
        self._numbers: set[int] = set()
        self._last = -1
        self._is_closed = False
        self._paths: dict[str, tuple[int, int]] = {}

    async def listen(self, user: Host, request: ListenRequest) -> Listening:
        """Return copies of a member's sockets. The first member that asks has them bound for all."""
        making: asyncio.Task[ServerSockets] | None = None
        while making is None or self._making.get(request) is not making:  # again if it was closed meanwhile
            if self._is_closed:
                raise GroupError(_IS_ENDING)
            making = self._making.get(request)
            if making is None:
                making = asyncio.get_running_loop().create_task(self._make(self._new_number(), request))
                self._making[request] = making
            try:
                server = await asyncio.shield(making)
            except asyncio.CancelledError:
                if self._is_closed and making.cancelled():  # by `close`, not the caller
                    raise GroupError(_IS_ENDING) from None
                raise
            except BaseException:
                if making.done() and self._making.get(request) is making:
                    del self._making[request]  # the next member tries again
                raise
        server.users.add(user)
        own = server.of(user.index)
        # Blocking or not is a property that copies share, and `dup` sets it as the original object has it.
        for sock in own:
            sock.setblocking(False)
        return Listening(server.number, [sock.dup() for sock in own])

    def release(self, user: Host, number: int | None = None) -> None:
        """Close what a member no longer serves: one server, or all. The last member that uses a server ends it."""
        for request, server in self._made():
            if number in (None, server.number) and user in server.users and not server.give_up(user):
                self._close(request, server)

    def inherit(self, before: Host, after: Host) -> None:
        """Give the sockets of a member to the one that replaces it, also those that it has not asked for yet."""
        for _, server in self._made():
            if before in server.users:
                server.users.remove(before)
                server.users.add(after)

    def close(self) -> None:
        """Close all servers, and make no more."""
        self._is_closed = True
        for request, server in self._made():
            self._close(request, server)
        for making in self._making.values():
            making.cancel()

    def _made(self) -> list[tuple[ListenRequest, ServerSockets]]:
        return [
            (request, making.result())
            for request, making in self._making.items()
            if making.done() and not making.cancelled() and making.exception() is None
        ]

    def _close(self, request: ListenRequest, server: ServerSockets) -> None:
        server.close()
        del self._making[request]
        self._numbers.discard(server.number)
        path = dict(request.arguments).get("path")
        if path is not None:
            remove_socket(path, self._paths.pop(path, None))

    def _new_number(self) -> int:
        """Return a free number; one below SERVERS if there is one, for only such servers can hand over.

        Numbers come round as late as possible: a connection for a closed server may still be on its way.
        """
        following = ((self._last + step) % SERVERS for step in range(1, SERVERS + 1))
        number = next(number for number in chain(following, count(SERVERS)) if number not in self._numbers)
        if number < SERVERS:
            self._last = number
        self._numbers.add(number)
        return number

    async def _make(self, number: int, request: ListenRequest) -> ServerSockets:
        try:
            return await self._bound(number, request)
        except BaseException:
            self._numbers.discard(number)
            raise

    async def _bound(self, number: int, request: ListenRequest) -> ServerSockets:
        arguments = dict(request.arguments)
        if request.family == "given":
            return ServerSockets(number, [None] * self._count, [self._given[arguments["sock_index"]].dup()])
        if request.family == "unix":
            path = arguments["path"]
            arguments["cleanup_socket"] = False  # the group's copy is still in use when that server is closed
            sockets = await bind(asyncio.get_running_loop().create_unix_server, arguments)
            status = os.stat(path)
            self._paths[path] = (status.st_dev, status.st_ino)
            return ServerSockets(number, [None] * self._count, sockets)
        return await self._make_tcp(number, arguments)

    async def _make_tcp(self, number: int, arguments: dict[str, Any]) -> ServerSockets:
        create = asyncio.get_running_loop().create_server
        if self._count == 1 or sys.platform != "linux":
            return self._shared(number, await bind(create, arguments))
        first = await bind(create, arguments)
        if not arguments["reuse_port"]:
            # They have shown that no other program has the port; now each member needs one like them.
            try:
                names = [(sock, sock.getsockname()) for sock in first]
                close_all(first)
                first = bind_all_like(names)
            except OSError:
                close_all(first)
                return self._shared(number, await bind(create, arguments))
        members = [first]
        try:
            for _ in range(1, self._count):
                members.append(bind_all_like([(sock, sock.getsockname()) for sock in first]))
        except BaseException:
            for own in members:
                close_all(own)
            raise
        return ServerSockets(number, members, [])

    def _shared(self, number: int, sockets: list[socket.socket]) -> ServerSockets:
        return ServerSockets(number, [None] * self._count, sockets)


async def bind(create: Callable[..., Awaitable[asyncio.Server]], arguments: dict[str, Any]) -> list[socket.socket]:
    """Return bound sockets, made as asyncio makes them, with its errors."""
    server = await create(asyncio.Protocol, **arguments, start_serving=False)
    try:
        return [sock.dup() for sock in server.sockets]
    finally:
        server.close()


def bind_like(pattern: socket.socket, name: Any) -> socket.socket:
    """Return a socket of the kind of `pattern`, bound to `name` by SO_REUSEPORT."""
    sock = socket.socket(pattern.family, pattern.type, pattern.proto)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(name)
    except BaseException:
        sock.close()
        raise
    return sock


def bind_all_like(names: Sequence[tuple[socket.socket, Any]]) -> list[socket.socket]:
    """Return for each pair a socket like its first, bound to its second; after an error none is left open."""
    made: list[socket.socket] = []
    try:
        for pattern, name in names:
            made.append(bind_like(pattern, name))
    except BaseException:
        close_all(made)
        raise
    return made


def close_all(sockets: list[socket.socket]) -> None:
    """Close sockets, and empty the list."""
    while sockets:
        sockets.pop().close()


def remove_socket(path: str, identity: tuple[int, int] | None) -> None:
    """Remove a Unix socket, unless another program has put its own there."""
    try:
        status = os.stat(path)
        if stat.S_ISSOCK(status.st_mode) and (status.st_dev, status.st_ino) == identity:
            os.unlink(path)
    except OSError:
        pass
