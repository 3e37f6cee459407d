"""The life of a member, in the thread or process that runs its loop: `main` runs, drains, ends.

    starting -> running -> draining -> ended

Draining has one order, so that no connection is lost: first every member keeps what it accepts (`keep`), then each
serves what waits in its inbox and in the queues of its listening sockets, closes them, and tells `main` (`drain`). When
`main` has returned, the connections that are still open continue until the deadline. The group watches the clock and
calls `cut`; a loop that is blocked could not watch it.

Thread: the member's loop.
"""

import asyncio
import math
import os
import socket
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from loopcore.group.calls import Calls
from loopcore.group.errors import GroupError
from loopcore.group.figures import MemberStats
from loopcore.group.load import PERIOD, SERVERS, Load, LoadTable
from loopcore.group.member import Member, current
from loopcore.group.part import Link, Listening, ListenRequest, Part
from loopcore.group.post import Post
from loopcore.group.server import GroupServer, ProtocolFactory, reset
from loopcore.kernel.meter import Meter
from loopcore.loop import EventLoop
from loopcore.runner import Runner

if TYPE_CHECKING:
    from concurrent.futures import Future
    from ssl import SSLContext

UNSAMPLED: Final = 1e6
"""The window of the meter, in seconds: its exact figures are enough."""


class Life:
    """Runs one member, from the first tick of its loop to the last."""

    def __init__(self, part: Part, link: Link, post: Post, table: LoadTable) -> None:
        self.part = part
        self.link = link
        self.loop: asyncio.AbstractEventLoop
        self.calls = Calls()
        self.is_draining = False
        self.is_given_up = False  # the group has ended before the member took calls
        self._post = post
        self._table = table
        self._load: Load
        self._drain_begins: asyncio.Event
        self._main: asyncio.Task[Any]
        self._is_cut: asyncio.Event
        self._deadline = math.inf
        self._exit: BaseException | None = None
        self._is_ready = False
        self._knows_draining = False
        self._is_replaced = False
        self._servers: dict[int, GroupServer] = {}
        self._ended_servers: list[GroupServer] = []  # whose numbers others have, and which have open connections
        self._requests: set[ListenRequest] = set()  # of open servers, and of those that are being made
        self._early: list[tuple[int, int, socket.socket]] = []
        self._pulse: asyncio.TimerHandle | None = None
        self._meter: Meter | None = None
        self._reported_at = (0.0, 0.0, 0.0)

    def run(self) -> None:
        """Run `main` to its end on a new loop. Raises what `main` raises."""
        with Runner(loop_factory=self.part.loop_factory, debug=self.part.debug) as runner:
            runner.run(self._live())
        if self._exit is not None:
            raise self._exit

    async def _live(self) -> None:
        if self.is_given_up:
            return
        self.loop = asyncio.get_running_loop()
        self._drain_begins, self._is_cut = asyncio.Event(), asyncio.Event()
        self._load = Load(self._table, self.part.index, generation=self.part.generation)
        member = Member(self)
        current.member = member
        self._main = self.loop.create_task(self._run_main(member), name=f"main of member {self.part.index}")
        self._post.open(self.loop, self._arrived)
        self._begin_reports()
        self.calls.open(self.loop)
        if self.is_given_up:
            self.cut()
        self.link.report_began(os.getpid(), threading.get_native_id())
        try:
            await asyncio.wait((self._main,))
            if self.is_draining and not self._failed():
                await self._wait_for_connections()
        finally:
            try:
                await self._end()
            finally:
                await self.calls.close()
        if self._main.cancelled() and self.is_draining:
            return
        await self._main

    async def _run_main(self, member: Member) -> None:
        try:
            await self.part.main(member)
        except (SystemExit, KeyboardInterrupt) as error:  # would end the loop, and leave servers open
            self._exit = error

    def _failed(self) -> bool:
        return self._exit is not None or (not self._main.cancelled() and self._main.exception() is not None)

    # Calls from the group

    def keep(self) -> None:
        """Give no more connections to other members, and ask for none; those on their way are served here."""
        for server in self._servers.values():
            server.withdraw()

    def drain(self, timeout: float) -> None:
        """Close the servers, and tell `main` that it has `timeout` seconds to return."""
        self._deadline = min(self._deadline, self.loop.time() + timeout)
        if self.is_draining:
            return
        self.is_draining = True
        self.keep()
        for server in self._servers.values():
            if not self._is_replaced:
                server.accept_the_rest()
            server.leave()
        if not self._is_replaced:
            self._post.close(replaced=False)
        self._drain_begins.set()
        if not self._knows_draining:
            self._main.cancel()

    def cut(self) -> None:
        """End now: cancel `main`, and abort what is open."""
        self.is_draining = True
        self._drain_begins.set()
        self._is_cut.set()
        self._main.cancel()

    def retire(self) -> None:
        """Leave the place in the table and the inbox to a replacement, and serve what this member accepts."""
        self._is_replaced = True
        self._load.retire()
        self._post.close(replaced=True)

    def resume(self) -> None:
        """Take the place back: the replacement has failed, or is not ready and the group drains."""
        if not self._is_replaced or self.is_draining:
            return
        self._is_replaced = False
        self._load.resume()
        self._post.open(self.loop, self._arrived)

    def stats(self) -> MemberStats:
        """Return the figures of this member."""
        counters = getattr(self.loop, "counters", None)
        _, _, accepted, given, taken = self._table.figures(self.part.index)
        return MemberStats(
            index=self.part.index,
            responsive=True,
            connections=self._load.connections,
            accepted=accepted,
            handed_over=given,
            taken_over=taken,
            utilization=self._load.utilization,
            counters=None if counters is None else counters(),
        )

    # For Member

    def set_ready(self) -> None:
        """Report once that the member is ready."""
        if not self._is_ready:
            self._is_ready = True
            self.link.report_ready()

    async def wait_for_drain(self) -> float:
        """Wait for `drain`; return the seconds left."""
        self._knows_draining = True
        self.set_ready()
        await self._drain_begins.wait()
        return self.time_left()

    def time_left(self) -> float:
        """Return the seconds until `cut`, as the member knows them."""
        return max(0.0, self._deadline - self.loop.time())

    async def create_server(
        self,
        protocol_factory: ProtocolFactory,
        family: str,
        arguments: dict[str, Any],
        *,
        backlog: int,
        ssl: "SSLContext | None",
        handshake_timeout: float | None,
        shutdown_timeout: float | None,
        start_serving: bool,
        hand_over: bool,
    ) -> GroupServer:
        """Make this member's part of a server, on sockets of the group."""
        request = self._numbered(family, tuple(sorted(arguments.items())))
        pending = self.link.listen(request)
        self._requests.add(request)
        try:
            listening = await asyncio.wrap_future(pending)
        except BaseException as error:
            self._requests.discard(request)
            pending.add_done_callback(self._give_back)  # the sockets may have just come
            if isinstance(error, GroupError):  # the group ends; its order to drain cancels a `main` that cannot drain
                await self._drain_begins.wait()
            raise
        number, sockets = listening.number, listening.sockets
        timeouts = {"ssl_handshake_timeout": handshake_timeout, "ssl_shutdown_timeout": shutdown_timeout}
        for each in sockets:
            each.setblocking(False)
        server = GroupServer(
            self.loop,
            sockets,
            protocol_factory,
            number=number,
            load=self._load,
            give=self._post.give if hand_over and self.part.count > 1 and number < SERVERS else None,
            backlog=backlog,
            ssl=ssl,
            timeouts={name: value for name, value in timeouts.items() if value is not None},
            released=partial(self._released, request),
        )
        before = [*self._ended_servers, *filter(None, (self._servers.get(number),))]
        self._ended_servers = [each for each in before if each.connections]
        self._servers[number] = server
        early, self._early = self._early, []
        for each_early in early:
            self._arrived(*each_early)
        if self.is_draining:
            server.leave()
        elif start_serving:
            try:
                await server.start_serving()
            except BaseException:
                server.close()  # the program never gets it
                raise
        return server

    def _numbered(self, family: str, arguments: tuple[tuple[str, Any], ...]) -> ListenRequest:
        """Return a request that differs from those of this member's open servers."""
        occurrence = 0
        while (request := ListenRequest(family, arguments, occurrence)) in self._requests:
            occurrence += 1
        return request

    def _give_back(self, pending: "Future[Listening]") -> None:
        """Close the sockets of a call that was cancelled. Thread: any."""
        if not pending.cancelled() and pending.exception() is None:
            listening = pending.result()
            for each in listening.sockets:
                each.close()
            self.link.release(listening.number)

    def _released(self, request: ListenRequest, server: GroupServer) -> None:
        self._requests.discard(request)
        self.link.release(server.number)

    def _arrived(self, sender: int, number: int, sock: socket.socket | None) -> None:
        """Serve a connection from another member; None was lost, and is on its way no longer."""
        if sock is None:
            self._load.take(sender)
            return
        server = self._servers.get(number)
        if server is not None:  # also a closed one: the connection was given while it was open
            self._load.take(sender)
            server.take(sock)
        elif self.is_draining:
            self._load.take(sender)
            reset(sock)
        else:  # for the member in whose place this one is; `main` will create that server
            self._early.append((sender, number, sock))

    # The end

    def _all_servers(self) -> list[GroupServer]:
        return [*self._ended_servers, *self._servers.values()]

    async def _wait_for_connections(self) -> None:
        """Return when no connection is open, or at the cut."""
        closed = [self.loop.create_task(server.wait_closed()) for server in self._all_servers()]
        cut = self.loop.create_task(self._is_cut.wait())
        try:
            waiting = set(closed)
            while waiting and not cut.done():
                done, _ = await asyncio.wait((*waiting, cut), return_when=asyncio.FIRST_COMPLETED)
                waiting -= done
        finally:
            for task in (*closed, cut):
                task.cancel()
            await asyncio.gather(*closed, cut, return_exceptions=True)

    async def _end(self) -> None:
        self.is_draining = True
        self._load.report(0.0)
        if self._pulse is not None:
            self._pulse.cancel()
        if self._meter is not None:
            self._meter.stop()
        try:
            for server in self._servers.values():
                server.leave()
            self._post.close(replaced=self._is_replaced)
            for _, _, sock in self._early:
                reset(sock)
        finally:
            try:
                for server in self._all_servers():
                    server.abort_clients()
                for server in self._all_servers():
                    await server.wait_closed()
            finally:
                if not self._is_replaced:
                    self._load.retire()

    # How busy the loop is

    def _begin_reports(self) -> None:
        now = time.monotonic()
        if isinstance(self.loop, EventLoop):
            self._meter = self.loop.meter(window=UNSAMPLED)
        self._reported_at = (now, self._worked(), now + PERIOD)
        self._pulse = self.loop.call_later(PERIOD, self._report)
        self._load.report(0.0)

    def _report(self) -> None:
        """Publish the share of the time in which the loop worked, or was late because something kept its thread."""
        now, worked = time.monotonic(), self._worked()
        last, worked_before, due = self._reported_at
        passed = max(now - last, 1e-9)
        self._load.report(max((worked - worked_before) / passed, (now - due) / passed))
        self._reported_at = (now, worked, now + PERIOD)
        self._pulse = self.loop.call_later(PERIOD, self._report)

    def _worked(self) -> float:
        """Return the seconds that the loop did not wait; for loops of other packages, the CPU time of the thread."""
        return time.thread_time() if self._meter is None else self._meter.snapshot().active_ns / 1e9
