"""A host: a name, addresses, ports, a disk, a clock that may be wrong, and a program on its own loop."""

import errno
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from loopcore.sim.arguments import called
from loopcore_backends.sim.descriptors import error
from loopcore_backends.sim.files.disk import Disk
from loopcore_backends.sim.files.system import new_disk
from loopcore_backends.sim.network import Ports, is_own
from loopcore_backends.sim.signals import Signals
from loopcore_backends.sim.socket_base import any_address, full_address, is_any

if TYPE_CHECKING:
    from loopcore_backends.sim.world import World

_FIRST_PID: Final = 1000
"""The first process of a host has this plus the host's number; each later one has this much more."""


class Host:
    """One machine of a simulation, with one process."""

    def __init__(self, world: "World", name: str, *, clock_offset: float = 0.0, clock_rate: float = 1.0) -> None:
        self.world = world
        self.name = name
        number = next(world.host_numbers)
        self.addresses: tuple[str, ...] = (f"10.0.{number >> 8}.{number & 255}", f"fd00::{number:x}")
        self.pid = _FIRST_PID + number
        self.clock_offset = clock_offset
        """Seconds by which its clocks are ahead."""
        self.clock_rate = clock_rate
        """Its seconds per true second."""
        self.ports = Ports()
        self.unix_names: dict[str, Any] = {}
        self.full_datagram_sockets: list[Any] = []
        """Unix sockets that wait until another one has room for a datagram."""
        self._disk: Disk | None = None
        self.signals = Signals()
        self.is_on = True
        self.boots = 0
        """How often it has lost its power."""
        self.is_paused = False
        self.loop: Any = None
        self.task: Any = None
        self.wakes_at: int | None = None
        """The deadline of its loop's wait, in nanoseconds of the world; None if it has none."""
        self.has_stirred = True
        """Its loop may have something to do: its last wait did not find that it has to block."""
        self._main: Callable[[], Coroutine[Any, Any, Any]] | None = None
        self._is_in_step = False
        """Its tick has not ended: code of it blocks."""
        self._graveyard: list[Any] = []

    def __repr__(self) -> str:
        return f"<Host {self.name}>"

    @property
    def disk(self) -> Disk:
        """Its files; made when a program first asks for one."""
        if self._disk is None:
            self._disk = new_disk(self)
        return self._disk

    # --- its program --------------------------------------------------------------------------------

    def start(self, main: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run `main()` on a new loop of this host. An exception of `main` ends the simulation."""
        self._main = main
        before, self.world.host = self.world.host, self
        try:
            self.loop = self.world.loops.new()
            self.loop.set_exception_handler(self.report)
            self.task = self.loop.create_task(called(main), name=self.name)
        finally:
            self.world.host = before
        self.has_stirred = True

    def can_step(self) -> bool:
        """Return whether its loop may make a tick: it runs, and no code of it blocks."""
        return self.loop is not None and self.is_on and not self.is_paused and not self._is_in_step

    def has_work(self) -> bool:
        """Return whether its loop has to make a tick now."""
        is_due = self.has_stirred or (self.wakes_at is not None and self.wakes_at <= self.world.now_ns)
        return is_due and self.can_step()

    def step(self) -> None:
        """Make one tick of its loop. Raises what its program raised."""
        world = self.world
        before, world.host = world.host, self
        self._is_in_step = True
        self.has_stirred = True  # until a wait finds nothing to do: see SimBackend.wait
        self.wakes_at = None
        try:
            self.loop.process_events(self.loop.poll_events())
            self.loop.process_ready()
        finally:
            self._is_in_step = False
            world.host = before
        task = self.task
        if task is not None and task.done():
            self.task = None
            if not task.cancelled():
                task.result()

    def bind_port(self, sock: Any, address: Any) -> Any:
        """Bind a socket of TCP or UDP; return its address. Raises OSError: EADDRNOTAVAIL, EADDRINUSE."""
        ip, port = str(address[0]) or any_address(sock.family), address[1]
        plain = ip.removeprefix("::ffff:")  # IPv4 as IPv6 shows it
        if not is_any(ip) and not is_own(plain) and plain not in self.addresses:
            raise error(errno.EADDRNOTAVAIL)
        return full_address(sock.family, ip, self.ports.bind(sock, ip, port))

    def listener_for(self, family: int, ip: str, port: int) -> Any:
        """Return the socket that listens at this address, None if none does."""
        found = self.ports.find(family, socket.SOCK_STREAM, ip, port, _listens)
        if not found and family == socket.AF_INET:
            found = self.ports.find(socket.AF_INET6, socket.SOCK_STREAM, f"::ffff:{ip}", port, _listens_to_both)
        if not found:
            return None
        return found[self.world.tape.choose(len(found), f"listener: which socket at port {port} gets the connection")]

    def listening(self) -> list[tuple[str, int]]:
        """Return where its TCP sockets listen: address and port."""
        return self.ports.listening()

    def report(self, loop: Any, context: dict[str, Any]) -> None:
        """Record what the loop's exception handler receives."""
        self.world.errors.append({"host": self.name, **context})
        self.world.note("error", f"{context['message']}: {context.get('exception')!r}", host=self.name)

    # --- its ends -----------------------------------------------------------------------------------

    def crash(self) -> None:
        """End its process at once: no `finally` runs; the kernel closes its sockets; the disk keeps its cache."""
        self.world.note("crash", "the process ends", host=self.name)
        self._abandon()
        self.world.descriptors.close_all_of(self)
        if self._disk is not None:
            self._disk.end_process()

    def power_cut(self) -> None:
        """Take its power: its peers receive nothing, and data that was not synced may be lost, torn or kept."""
        self.world.note("crash", "the power is cut", host=self.name)
        self._abandon()
        self.is_on = False
        self.boots += 1
        self.world.descriptors.forget_all_of(self)
        self.ports.clear()
        self.unix_names.clear()
        if self._disk is not None:
            self._disk.power_cut(self.world.tape.choose)

    def restart(self, main: Callable[[], Coroutine[Any, Any, Any]] | None = None) -> None:
        """Run its program again, on the unchanged disk. Raises ValueError if it never had one."""
        main = main or self._main
        if main is None:
            raise ValueError(f"{self.name} has had no program; restart() takes one")
        self.world.note("restart", "the process begins", host=self.name)
        if self.loop is not None:
            self.crash()
        self.is_on = True
        self.is_paused = False
        self.start(main)
        self.world.network.release_held()

    def pause(self) -> None:
        """Let its process stand still, as SIGSTOP does; its kernel goes on."""
        self.is_paused = True

    def go_on(self) -> None:
        """End a pause."""
        self.is_paused = False
        self.has_stirred = True

    def _abandon(self) -> None:
        # Kept until the simulation ends: a coroutine that is dropped would run its `finally` blocks.
        self._graveyard.append((self.loop, self.task))
        self.world.threads.lose(self)
        self.signals.cancel_alarm()
        self.signals = Signals()
        self.pid += _FIRST_PID
        self.loop = self.task = self.wakes_at = None

    def abandoned_loops(self) -> list[Any]:
        """Return the loops of its processes that crashed."""
        return [loop for loop, _ in self._graveyard]

    def close(self) -> None:
        """The simulation is over: cancel what still runs, and close the loops."""
        for loop, _ in [(self.loop, self.task), *self._graveyard]:
            if loop is not None:
                self.world.loops.end(loop)
        self._graveyard.clear()
        self.loop = self.task = None


def _listens(sock: Any) -> bool:
    return bool(sock.state == "listening")


def _listens_to_both(sock: Any) -> bool:
    return _listens(sock) and not sock.options.get((socket.IPPROTO_IPV6, socket.IPV6_V6ONLY))
