"""The loops of simulated hosts: how they are made, ended, and asked what they wait for."""

import asyncio
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType

from loopcore.runner import new_event_loop
from loopcore.sim import current
from loopcore.sim.errors import NotSimulatedError
from loopcore.sim.numbered import numbered
from loopcore.sim.ordering import ReadyChoices
from loopcore.sim.tape import Level, Tape
from loopcore.sim.waiting import explain_waits

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Iterable

    from loopcore.loop import EventLoop
    from loopcore.runner import BackendChoice


class Loops:
    """Makes loops over one simulating backend. A machine is handed this, since backends know nothing of loops."""

    def __init__(self, backend: str = "sim") -> None:
        self._backend = backend
        self._made: list[ReferenceType[EventLoop]] = []  # the program may drop a loop

    def new(
        self, backend: "BackendChoice" = None, *, plugins: "str | Iterable[str | object] | None" = None
    ) -> "EventLoop":
        """Return a new loop for the host whose code runs.

        `backend` and `plugins` are those that the program gives to `loopcore.new_event_loop`. Raises NotSimulatedError
        for another backend than that of the simulation.
        """
        if backend not in (None, self._backend):
            raise NotSimulatedError(
                f"a loop on the backend {backend!r} is not simulated; leave `backend` out, and set LOOPCORE_BACKEND "
                "where the program is started for real"
            )
        loop = numbered(new_event_loop(self._backend, plugins=plugins))
        tape: Tape = current.world().tape
        if tape.level is not Level.IO:
            loop.probes.register(ReadyChoices(tape), "ready-choices")
        self._made.append(ReferenceType(loop))
        return loop

    def silence(self) -> None:
        """Have the open loops report nothing any more: the simulation is over, and threads that run some end first."""
        for loop in self.still_open():
            loop.set_exception_handler(_ignore)

    def end(self, loop: "EventLoop") -> None:
        """Throw the tasks and transports of `loop` away, and close it.

        The simulation is over, so the effects and exceptions of `finally` blocks are dropped.
        """
        loop.set_exception_handler(_ignore)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            task: Any
            for task in asyncio.all_tasks(loop):
                task._log_destroy_pending = False
                _close(task.get_coro())
            for transport in loop._transports.values():
                with suppress(OSError):  # the program has closed its descriptor
                    transport._drop_references()
            with suppress(BaseException):
                loop.close()

    def end_all(self) -> None:
        """End the loops that are still open, such as those that the program made itself and left."""
        for loop in self.still_open():
            self.end(loop)
        self._made.clear()

    def still_open(self) -> "list[EventLoop]":
        """Return the loops that are open, the oldest first."""
        alive = [loop for reference in self._made if (loop := reference()) is not None]
        return [loop for loop in alive if not loop.is_closed()]

    def explain(self, loops: "list[EventLoop]") -> str:
        """Return what the tasks of `loops` wait for, a line each."""
        return explain_waits(task for loop in loops for task in asyncio.all_tasks(loop))


def _ignore(loop: object, context: dict[str, Any]) -> None:
    pass


def _close(coroutine: "Coroutine[Any, Any, Any] | Generator[Any, Any, Any]") -> None:
    """Close `coroutine`, whose `finally` blocks may await, and raise.

    A coroutine that awaits there ignores GeneratorExit and goes on; the next call ends that await too. Without an end
    to the calls, a coroutine that never gives up would hang the simulation.
    """
    for _ in range(100):
        try:
            coroutine.close()
        except RuntimeError as exc:
            if "ignored GeneratorExit" not in str(exc):
                return
        except BaseException:
            return
        else:
            return
