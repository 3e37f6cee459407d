"""Inspect: the plugin. It opens a socket when a loop first runs, and removes it when the loop is closed."""

import atexit
import os
import weakref
from itertools import count
from typing import Any

import loopcore
from loopcore.errors import UsageError
from loopcore.hooks.types import Loop
from loopcore.log import plugin_logger
from loopcore_plugins.inspect import places
from loopcore_plugins.inspect.creation_times import CreationTimes
from loopcore_plugins.inspect.server import Server
from loopcore_plugins.inspect.subject import Subject

logger = plugin_logger.getChild("inspect")

_numbers = count(1)
_servers: "weakref.WeakSet[Server]" = weakref.WeakSet()


class Inspect:
    """Lets `loopcore ps`, `stacks`, `top` and `cancel` of the same user inspect the loops it is registered with.

    `ages`: also remember when each task is created, which costs something for each task.

    Without a connection, the loop runs as without the plugin. If the socket cannot be opened, that is logged to
    `loopcore.plugin.inspect`, and the program runs without it. Raises UsageError where there are no Unix sockets.
    """

    def __init__(self, *, ages: bool = False) -> None:
        places.check_platform()
        self._ages = ages
        self._inspected: dict[int, tuple[Server, Subject]] = {}
        self._creation_times: dict[int, CreationTimes] = {}
        self._complaints: dict[int, str] = {}

    @loopcore.hookimpl
    def loopcore_plugin_registered(self, loop: Loop) -> None:
        """Begin with `loop`; at once if it is already running, in this thread."""
        if self._ages:
            creation_times = self._creation_times[id(loop)] = CreationTimes()
            loop.probes.register(creation_times)
        if loop.is_running():
            self.loopcore_run_started(loop)

    @loopcore.hookimpl
    def loopcore_run_started(self, loop: Loop) -> None:
        """Open the socket of `loop`, if it has none yet."""
        if id(loop) in self._inspected:
            self._inspected[id(loop)][1].moved()
            return
        number = next(_numbers)
        subject = Subject(loop, number, self._creation_times.get(id(loop)))
        try:
            listener = places.Listener(os.getpid(), number)
            try:
                server = Server(listener, subject)
                server.start()
            except BaseException:
                listener.remove()
                listener.close()
                raise
        except (OSError, RuntimeError, UsageError) as exc:  # RuntimeError: no thread can be started
            if self._complaints.get(id(loop)) != str(exc):  # asyncio.run alone runs its loop four times
                logger.warning("%r cannot be inspected: %s", loop, exc)
                self._complaints[id(loop)] = str(exc)
            return
        self._inspected[id(loop)] = server, subject
        _servers.add(server)
        logger.debug("%r can be inspected through %s", loop, listener.path)

    @loopcore.hookimpl
    def loopcore_run_stopped(self, loop: Loop) -> None:
        """Stop looking for stalls of `loop`, which no longer runs."""
        if id(loop) in self._inspected:
            self._inspected[id(loop)][1].stopped()

    @loopcore.hookimpl
    def loopcore_stall_begin(self, loop: Loop, stall: Any) -> None:
        """Remember a stall that the plugin `watchdog` has found. Thread: the watchdog's."""
        self._note_stall("begin", loop, stall)

    @loopcore.hookimpl
    def loopcore_stall_end(self, loop: Loop, stall: Any) -> None:
        """Remember its end."""
        self._note_stall("end", loop, stall)

    def _note_stall(self, event: str, loop: Any, stall: Any) -> None:
        inspected = self._inspected.get(id(loop))
        if inspected is not None:
            inspected[1].stalls.note_stall(event, loop, stall)

    @loopcore.hookimpl
    def loopcore_loop_closing(self, loop: Loop) -> None:
        """Remove the socket."""
        server, subject = self._inspected.pop(id(loop), (None, None))
        if server is not None and subject is not None:
            server.stop()
            subject.dismiss()
        self._creation_times.pop(id(loop), None)
        self._complaints.pop(id(loop), None)

    @loopcore.hookimpl
    def loopcore_plugin_unregistered(self, loop: Loop) -> None:
        """Remove the socket, and the plugins that were registered for it."""
        creation_times = self._creation_times.get(id(loop))
        self.loopcore_loop_closing(loop)
        if creation_times is not None:
            loop.probes.unregister(creation_times)

    @loopcore.hookimpl
    def loopcore_fork_child(self, loop: Loop) -> None:
        """Drop the parent's socket and connections, and what was measured for them."""
        server, subject = self._inspected.pop(id(loop), (None, None))
        if server is not None and subject is not None:
            server.abandon()
            subject.abandon()


def _stop_all() -> None:
    """Remove the sockets of loops that are never closed."""
    for server in list(_servers):
        server.stop()


atexit.register(_stop_all)
