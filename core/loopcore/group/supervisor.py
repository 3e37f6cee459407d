"""The supervisor: starts members, replaces those that fail, and ends them in the right order.

It is a set of coroutines on a separate loop and thread, so the state of a group has one owner. That loop serves no
connections. The public methods of LoopGroup run these coroutines and wait for them.

    start       every member begins; the group runs when all are ready
    failure     the member is reported, and replaced or the group drains, as `on_failure` says
    replace     the successor starts, and takes over the place; then the predecessor drains
    drain       all keep what they accept; all drain; at the deadline they are cut; after `GRACE` seconds killed
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from loopcore.errors import UsageError
from loopcore.group.errors import GroupError, MemberFailedError
from loopcore.group.figures import GroupStats, MemberStats, MemberStatus, add_up
from loopcore.group.host import Host
from loopcore.group.listeners import Listeners
from loopcore.group.load import Cells, LoadTable, cells_of
from loopcore.group.part import Listening, ListenRequest, Part
from loopcore.group.post import SocketPost, ThreadInbox
from loopcore.group.processes import GRACE, ProcessHost, Shared, block_signals
from loopcore.group.server import reset
from loopcore.group.threads import ThreadHost
from loopcore.runner import new_event_loop

T = TypeVar("T")
logger = logging.getLogger("loopcore.group")

ANSWER: Final = 1.0
"""Seconds that a member has to answer before the group goes on without it: its loop may be blocked."""
READY_TIMEOUT: Final = 60.0
"""Seconds that a member has to become ready, unless the caller gives another number."""
RESTART_EVERY: Final = 1.0
"""Seconds from one start of a member to the next: one that fails again and again must not keep a processor busy."""


class Supervisor:
    """The state of a running group. Thread: its own loop's, unless a method says otherwise."""

    def __init__(self, part: Part, on_failure: str, sockets: Sequence[socket.socket]) -> None:
        self._shared = Shared(part.count) if part.kind == "processes" else None
        self.loop: asyncio.AbstractEventLoop = new_event_loop(plugins=())
        self.pid = os.getpid()
        self.over = threading.Event()
        self.exit_code = 0
        self._part = part
        self._on_failure = on_failure
        cells: Cells = [0.0] * cells_of(part.count)
        self._table = LoadTable(cells, part.count) if self._shared is None else self._shared.table
        self._inboxes: list[ThreadInbox | None] = [None] * part.count
        self._listeners = Listeners(part.count, sockets)
        self._hosts: list[Host] = []
        self._first_failed: Host | None = None
        self._extra: set[Host] = set()  # successors that are not ready yet, and predecessors that drain
        self._watched: set[Host] = set()  # those whose end has not been handled
        self._refusing: dict[int, SocketPost] = {}  # for processes that have ended for good
        self._tasks: set[asyncio.Task[Any]] = set()
        self._all_ended = asyncio.Event()
        self._calling = threading.RLock()  # a signal handler may interrupt `call` in the same thread
        self._takes_calls = True
        self._calls: set[concurrent.futures.Future[Any]] = set()
        self._replacing = [asyncio.Lock() for _ in range(part.count)]
        self._drain_begins = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="loopcore_supervisor", daemon=True)

    @property
    def is_draining(self) -> bool:
        """Whether the group ends. Thread: any."""
        return self._drain_begins.is_set()

    # The thread

    def begin(self) -> None:
        """Start the supervisor's thread. Raises RuntimeError if the system gives none. Thread: any."""
        try:
            self._thread.start()
        except Exception:
            self._release()
            self.loop.close()
            raise

    def call(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Run one of the coroutines below. Thread: any other. Raises UsageError if the group has ended."""
        with self._calling:
            if self._takes_calls:
                call = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
                self._calls.add(call)
                call.add_done_callback(self._calls.discard)
                return call
        coroutine.close()
        raise UsageError("the group has ended; make another LoopGroup")

    def close(self) -> None:
        """Wait for the thread. Thread: any other."""
        self._thread.join()

    def _run(self) -> None:
        block_signals()
        try:
            self.loop.run_until_complete(self._until_over())
        finally:
            self.loop.close()
            self.over.set()

    async def _until_over(self) -> None:
        await self._all_ended.wait()
        with self._calling:
            self._takes_calls = False
            calls = [asyncio.wrap_future(call) for call in list(self._calls)]  # one that ends leaves it
        await asyncio.gather(*calls, *self._tasks, return_exceptions=True)
        self._release()

    def _release(self) -> None:
        for post in self._refusing.values():
            post.close(replaced=False)
        self._listeners.close()
        if self._shared is not None:
            self._shared.close()

    # Starting

    async def start(self, until_ready: bool) -> None:
        """Start every member; raises what prevents that. With `until_ready`, wait for all of them.

        Raises MemberFailedError, and ends the group, if a member fails before it is ready.
        """
        for index in range(self._part.count):
            try:
                self._hosts.append(self._new_host(index, 0))
                self._hosts[index].start()
            except BaseException:
                del self._hosts[index:]
                self.exit_code = 1
                await self.stop(GRACE)
                raise
            self._watch(self._hosts[index])

        for host in list(self._hosts) if until_ready else ():
            await first(host.ready, host.ended)
            if host.outcome.exit_code and not host.ready.is_set():
                await self.stop(GRACE)
                raise failure_of(self._first_failed or host, "before it was ready")

    def _new_host(self, index: int, generation: int) -> Host:
        part = replace(self._part, index=index, generation=generation)
        if index in self._refusing:
            self._refusing.pop(index).close(replaced=True)
        if self._shared is not None:
            return ProcessHost(part, self, self._shared)
        return ThreadHost(part, self, self._inboxes, self._table)

    def _watch(self, host: Host) -> None:
        self._watched.add(host)
        self._begin(self._until_end(host))

    async def _until_end(self, host: Host) -> None:
        try:
            await host.ended.wait()
            await self._handle_end(host)
        finally:
            self._watched.discard(host)
            self._look_whether_over()

    async def _handle_end(self, host: Host) -> None:
        code, error = host.outcome
        if host in self._extra and not host.is_draining:  # a successor: did it still take over?
            async with self._replacing[host.index]:
                pass
        if host in self._extra:
            self._extra.discard(host)
            self._listeners.release(host)
            if code and host.is_draining and host.ready.is_set() and not host.is_killed:
                logger.error("%s", failure_of(host, "while it drained"), exc_info=error)
        elif code and not self.is_draining:
            self._first_failed = self._first_failed or host
            self._table.clear(host.index, host.part.generation)
            await self._failed(host)
        elif code:
            if not host.is_killed:  # which was reported
                logger.error("%s", failure_of(host, "while it drained"), exc_info=error)
            self.exit_code = self.exit_code or positive(code)
        elif not self.is_draining and not host.is_retired:
            self._vacate(host)

    def _vacate(self, host: Host) -> None:
        """Give up what a member had that has returned: clients are refused, as are connections from other members."""
        self._listeners.release(host)
        if self._shared is not None:
            post = self._refusing[host.index] = SocketPost(self._shared.pairs[host.index][0], (), host.index)
            post.open(self.loop, partial(self._refuse, host.index))

    def _refuse(self, index: int, sender: int, number: int, sock: socket.socket | None) -> None:
        """Reset a connection that was given to a member as it ended; None was lost on its way."""
        self._table.count_arrival(index, sender)
        if sock is not None:
            reset(sock)

    async def _failed(self, host: Host) -> None:
        restarts = self._on_failure == "restart" and host.ready.is_set()
        action = "it is restarted" if restarts else "the group ends"
        logger.error("%s; %s", failure_of(host), action, exc_info=host.outcome.error)
        if restarts:
            async with self._replacing[host.index]:
                await first(self._drain_begins, timeout=max(0.0, host.made_at + RESTART_EVERY - self.loop.time()))
                if self._hosts[host.index] is not host:
                    return
                try:
                    if not self.is_draining:
                        another = self._hosts[host.index] = self._start_another(host)
                        self._listeners.inherit(host, another)
                        return
                except Exception:
                    logger.exception("member %d could not be restarted; the group ends", host.index)
        self.exit_code = self.exit_code or positive(host.outcome.exit_code)
        if not self.is_draining:
            self._begin(self.drain(self._part.drain_timeout))

    def _start_another(self, host: Host) -> Host:
        another = self._new_host(host.index, host.part.generation + 1)
        another.start()
        self._watch(another)
        return another

    def _begin(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._keep(self.loop.create_task(coroutine))

    def _keep(self, task: asyncio.Task[Any]) -> None:
        """Have the group end after `task`. Thread: the supervisor's."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _all(self) -> list[Host]:
        return [host for host in (*self._hosts, *self._extra) if not host.ended.is_set()]

    def _look_whether_over(self) -> None:
        if not self._watched and not any(lock.locked() for lock in self._replacing):
            self._drain_begins.set()
            self._all_ended.set()

    # Ending

    async def drain(self, timeout: float) -> None:
        """End all members, each within `timeout` seconds and the grace."""
        self._drain_begins.set()
        hosts = self._all()
        successors = [host for host in self._extra if not host.is_draining]
        for host in hosts:
            host.is_draining = True
        deadline = self.loop.time() + timeout
        # A successor that is not ready has no servers: the member that it was to replace serves what waits.
        await self._ordered(successors, "retire", (), min(timeout, ANSWER))
        await self._ordered([host for host in self._hosts if host.is_retired], "resume", (), min(timeout, ANSWER))
        await self._ordered(hosts, "keep", (), min(timeout, ANSWER))
        await self._ordered(hosts, "drain", (timeout,), min(timeout, ANSWER))
        # Members that answered have served what waited in their queues and closed their copies. Until this, the group's
        # copies let clients connect; connections that wait there are reset, and clients that come later are refused.
        self._listeners.close()
        await asyncio.gather(*(self._end(host, deadline) for host in hosts))
        self._look_whether_over()

    async def stop(self, timeout: float) -> None:
        """Cancel every `main`; a member that has not ended after `timeout` seconds is killed or reported."""
        self._drain_begins.set()
        hosts = self._all()
        for host in hosts:
            host.is_draining = True
        self._listeners.close()
        await asyncio.gather(*(self._cut(host, timeout) for host in hosts))
        self._look_whether_over()

    async def _end(self, host: Host, deadline: float) -> None:
        left = max(0.0, deadline - self.loop.time())
        await first(host.began, timeout=left)
        host.order("drain", left)
        if not await first(host.ended, timeout=max(0.0, deadline - self.loop.time())):
            await self._cut(host, GRACE)

    async def _cut(self, host: Host, timeout: float) -> None:
        deadline = self.loop.time() + timeout
        await first(host.began, timeout=timeout)
        host.order("cut")
        if await first(host.ended, timeout=max(0.0, deadline - self.loop.time())):
            return
        if host.is_killed:  # by a call that came before
            await host.ended.wait()
            return
        if host not in self._extra:  # that a predecessor had to be ended does not make the group fail
            self.exit_code = self.exit_code or 1
        if host.kill():
            host.is_killed = True
            logger.error("member %d did not end in time and was killed (process %d)", host.index, host.pid)
            await host.ended.wait()
        else:
            logger.error(
                "member %d did not end in time: its loop is blocked, or main ignores its cancellation; its thread (%d) "
                "is left behind until the process ends",
                *(host.index, host.thread_id),
            )
            host.ended.set()

    async def _ordered(self, hosts: list[Host], name: str, arguments: tuple[Any, ...], timeout: float) -> None:
        """Have members do something, and wait for those that answer in time."""
        able = [host for host in hosts if host.began.is_set() and not host.ended.is_set()]
        waiting = [asyncio.wrap_future(host.order(name, *arguments)) for host in able]
        if waiting:
            done, pending = await asyncio.wait(waiting, timeout=timeout)
            for each in pending:
                each.add_done_callback(read)  # not cancelled: a loop that is busy does it first thing
            for each in done:
                read(each)

    # Replacing

    async def restart(
        self, index: int, timeout: float, ready_timeout: float | None = READY_TIMEOUT, only: Host | None = None
    ) -> None:
        """Replace a member: its successor becomes ready, then it drains, within `timeout` seconds and the grace.

        With `only`, nothing happens if that member has been replaced meanwhile. Raises MemberFailedError if the
        successor fails before it takes over, TimeoutError if it is not ready in `ready_timeout` seconds; the member
        that was there continues. Raises UsageError if `index` is not a member's.
        """
        self._check_index(index)
        try:
            async with self._replacing[index]:
                old = await self._start_successor(index, ready_timeout, only)
        finally:
            self._look_whether_over()
        if old is not None and not old.ended.is_set():
            await self._end(old, self.loop.time() + timeout)

    async def _start_successor(self, index: int, ready_timeout: float | None, only: Host | None) -> Host | None:
        """Put a successor in the place of a member when it is ready; return the member, None if it is not `only`."""
        old = self._hosts[index]
        if only is not None and old is not only:
            return None
        self._refuse_if_draining()
        old.is_retired = True
        await self._ordered([old], "retire", (), ANSWER)
        try:
            self._refuse_if_draining()
            new = self._start_another(old)
            self._extra.add(new)
            if not await first(new.ready, new.ended, timeout=ready_timeout):
                await self._cut(new, GRACE)
                raise TimeoutError(f"member {index}'s successor {not_ready(ready_timeout)}; the old member continues")
            if new.outcome.exit_code:
                raise failure_of(new, "before it took over")
        except BaseException:
            old.is_retired = False
            await self._ordered([old], "resume", (), ANSWER)
            if old.ended.is_set() and not old.outcome.exit_code and not self.is_draining:
                self._vacate(old)
            raise
        self._hosts[index] = new
        self._listeners.inherit(old, new)
        self._extra.discard(new)
        if not old.ended.is_set():
            self._extra.add(old)
            old.is_draining = True
        return old

    def _refuse_if_draining(self) -> None:
        if self.is_draining:
            raise UsageError("the group is draining; a member can be restarted while the group runs")

    async def replace(self, host: Host) -> None:
        """Restart a member whose process was asked to end, unless it ends already; log it if that fails."""
        if self.is_draining or self._hosts[host.index] is not host:
            return
        logger.info("member %d got SIGTERM; it is replaced", host.index)
        try:
            await self.restart(host.index, self._part.drain_timeout, only=host)
        except (GroupError, UsageError, TimeoutError):
            logger.exception("member %d could not be replaced; it continues", host.index)

    # Requests

    def members(self) -> tuple[MemberStatus, ...]:
        """Return the state of every member. Thread: any."""
        return tuple(
            MemberStatus(host.index, host.state, host.part.generation, host.pid, host.thread_id)
            for host in list(self._hosts)
        )

    def run_on(
        self, index: int, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> "concurrent.futures.Future[Any]":
        """Run a function on a member. Thread: any. Raises UsageError if it does not exist."""
        self._check_index(index)
        return self._hosts[index].run(function, arguments)

    def _check_index(self, index: int) -> None:
        if not 0 <= index < len(self._hosts):
            raise UsageError(f"there is no member {index}; the group has members 0 to {len(self._hosts) - 1}")

    def listen(self, host: Host, request: ListenRequest) -> "concurrent.futures.Future[Listening]":
        """Return a member's listening sockets. Thread: any."""
        return self.call(self._listen(host, request))

    async def _listen(self, host: Host, request: ListenRequest) -> Listening:
        task = asyncio.current_task()
        assert task is not None
        self._keep(task)  # a call that the member cancels is done before its task
        task.add_done_callback(read)  # its process may have ended: nothing else retrieves the error
        return await self._listeners.listen(host, request)

    def release(self, host: Host, number: int) -> None:
        """Give up a member's listening sockets. Thread: any."""
        self.post(self._listeners.release, host, number)

    def ask_to_replace(self, host: Host) -> None:
        """Begin to replace a member. Thread: any."""
        self.post(lambda: self._begin(self.replace(host)))

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call a function on `loop`, unless the group has ended. Thread: any."""
        with contextlib.suppress(RuntimeError):  # of a thread that was left behind and ends after the group
            self.loop.call_soon_threadsafe(function, *arguments)

    async def stats(self, timeout: float) -> GroupStats:
        """Ask every member for its figures; for those that do not answer in time, return the last published ones."""
        found = await asyncio.gather(*(self._stats_of(host, timeout) for host in self._hosts))
        return GroupStats(tuple(found), add_up(tuple(found)))

    async def _stats_of(self, host: Host, timeout: float) -> MemberStats:
        if host.began.is_set() and not host.ended.is_set():
            try:
                return await asyncio.wait_for(asyncio.wrap_future(host.order("stats")), timeout)
            except (TimeoutError, GroupError, asyncio.CancelledError, concurrent.futures.CancelledError):
                pass
        busy, connections, accepted, given, taken = self._table.figures(host.index)
        return MemberStats(host.index, host.ended.is_set(), connections, accepted, given, taken, busy, None)


def failure_of(host: Host, when: str = "") -> MemberFailedError:
    """Return the error that describes how a member failed."""
    code, error = host.outcome
    if error is not None:
        how = f"raised {type(error).__name__}: {error}"
    elif code < 0:
        how = f"was killed by signal {-code}"
    else:
        how = f"ended with exit code {code}"
    failure = MemberFailedError(f"member {host.index} {how}{' ' + when if when else ''}")
    failure.__cause__ = error
    return failure


def not_ready(timeout: float | None) -> str:
    """Return what to say of a member that was not ready in time."""
    return (
        f"was not ready after {timeout} seconds: its main has to await member.draining() or call member.ready(); "
        "give it a longer timeout if it needs one"
    )


def positive(code: int) -> int:
    """Return an exit code as a shell has it: 128 plus the signal's number for a process that a signal has ended."""
    return code if code >= 0 else 128 - code


async def first(*events: asyncio.Event, timeout: float | None = None) -> bool:
    """Wait until one of the events is set; return False if `timeout` seconds pass first."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done, _ = await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for wait in waits:
            wait.cancel()


def read(future: "asyncio.Future[Any]") -> None:
    """Retrieve the exception of an answer that may not be awaited."""
    if not future.cancelled():
        future.exception()
