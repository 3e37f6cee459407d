"""Running a simulation: once with one seed, many times in search of a failure, and again as a token says."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from loopcore.errors import UsageError
from loopcore.selection.discovery import BACKENDS
from loopcore.sim import current
from loopcore.sim.arguments import NoCoroutineError, called, checked_limit, checked_main, checked_seed
from loopcore.sim.errors import NestedSimulationError, SimulationError
from loopcore.sim.loops import Loops
from loopcore.sim.numbered import restart_numbers
from loopcore.sim.search import mixed
from loopcore.sim.tape import Level, Strategy, Tape

if TYPE_CHECKING:
    from collections import Counter

    from loopcore.loop import EventLoop
    from loopcore.sim.log import LogEntry

    class MainHost(Protocol):
        """The host on which the test itself runs."""

        loop: EventLoop | None

        def report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            """Record what the loop's exception handler receives."""

    class World(Protocol):
        """What running a simulation needs of its world. Its hosts and links are the machine's own."""

        tape: Tape
        loops: Loops
        log: list[LogEntry]
        errors: list[dict[str, Any]]
        """The contexts that the exception handlers of the loops received."""
        reached: Counter[str]
        steps: int
        refused: list[str]
        limit_ns: int | None
        verdict: Exception | None
        """Why the thread that runs the simulation was interrupted, if that was not the user."""
        main: MainHost

        @property
        def now(self) -> float: ...

        def close(self) -> None: ...


T = TypeVar("T")

Main = Callable[[], Coroutine[Any, Any, T]]


class Machine(Protocol):
    """What a class of backends that simulate has besides the port."""

    def new_world(self, tape: Tape, loops: Loops) -> "World":
        """Return a new world whose choices come from `tape`, and whose hosts run loops of `loops`."""
        ...

    def inside(self, world: "World") -> AbstractContextManager[None]:
        """Return a context manager: within it Python's functions are those of `world`."""
        ...

    def outside(self) -> AbstractContextManager[None]:
        """Return a context manager: within it Python's functions are the real ones, in the thread that enters it."""
        ...


class Outcome:
    """How a simulation went: its tape, its log, and what the loops reported."""

    def __init__(self, world: "World", result: Any, error: BaseException | None) -> None:
        self.tape: Tape = world.tape
        self.log: list[LogEntry] = [*world.log]  # without what the end of its loops still writes
        self.reported: list[dict[str, Any]] = world.errors
        self.reached: Counter[str] = world.reached
        self.seconds: float = world.now
        """Simulated seconds."""
        self.steps: int = world.steps
        self.refused: list[str] = [*world.refused]
        """The calls that are not simulated."""
        self.result = result
        self.error = error
        """What `main` raised, or what `simulate` counts as a failure although it returned; None if there is nothing."""


def simulate(main: Main[Any], tape: Tape, *, limit: float | None = 3600.0, backend: str = "sim") -> Outcome:
    """Run `main()` in a new simulation whose choices come from `tape`; return how it went.

    `limit` is in simulated seconds. What `main` raises, DeadlockError and SystemExit included, is in the outcome; only
    KeyboardInterrupt is raised, and UsageError if `main` returns no coroutine. If it returns one and that ends, an
    exception that reached the handler of a loop is the error: one of a callback, of a connection's handler, of a
    task that is never awaited. An OSError is not: many handlers leave those that faults of the network bring about to
    the loop. Raises UsageError inside a simulation.
    """
    checked_main(main, "run(main)")
    if asyncio.events._get_running_loop() is not None and not current.is_running():
        raise UsageError("a loop runs in this thread already; start simulations outside of coroutines")
    outcome: Outcome | None = None
    try:
        with simulation(tape, limit=limit, backend=backend) as world:
            outcome = Outcome(world, *_run_main(world, main))
    except SimulationError as exc:  # of its end: a thread that stays, say
        outcome = outcome or Outcome(world, None, exc)
        outcome.error = outcome.error or exc
    return outcome


@contextmanager
def simulation(tape: Tape, *, limit: float | None = 3600.0, backend: str = "sim") -> Iterator["World"]:
    """Let the body of the `with` statement see a new world whose choices come from `tape`, instead of the system.

    The loops that the body makes (by asyncio.run and the like) are those of the world's main host. `limit` is in
    simulated seconds. The value is the World; it is closed at the end. Raises NestedSimulationError, a UsageError,
    inside a simulation.
    """
    checked_limit(limit)
    if current.is_running():
        raise NestedSimulationError(
            "a simulation runs already, and simulations do not nest: add hosts to it (sim.host)"
        )
    machine = _machine(backend)
    restart_numbers()
    loops = Loops(backend)
    world = machine.new_world(tape, loops)
    world.limit_ns = None if limit is None else round(limit * 1e9)
    current.enter(world)
    try:
        with machine.inside(world):
            try:
                yield world
            except KeyboardInterrupt:
                if world.verdict is None:
                    raise
                raise world.verdict from None
            finally:
                try:
                    world.close()
                finally:
                    loops.end_all()
    finally:
        current.enter(None)


def outside(*, backend: str = "sim") -> AbstractContextManager[None]:
    """Return a context manager: within it Python's functions are the real ones in this thread, although one runs."""
    return _machine(backend).outside()


def run(
    main: Main[T],
    *,
    seed: int = 0,
    strategy: Strategy | None = None,
    level: Level = Level.IO,
    limit: float | None = 3600.0,
) -> T:
    """Run `main()` in a simulation, and return what it returns.

    The same seed gives the same run. `limit` is in simulated seconds. Raises what `main` raises, with a note that has
    the token for `replay`; DeadlockError and LivelockError if it cannot end.
    """
    tape = Tape(strategy or mixed(checked_seed(seed)), seed=seed, level=level)
    outcome = simulate(main, tape, limit=limit)
    if outcome.error is not None:
        outcome.error.add_note(f"simulated with seed {seed}; replay token: {tape.token()}")
        raise outcome.error
    result: T = outcome.result
    return result


def replay(main: Main[T], token: str, *, limit: float | None = 3600.0) -> T:
    """Run `main()` as the run went that gave `token`, and return or raise what it returns or raises.

    Raises UsageError for a token that is damaged, SimulationError if the run went another way and did not fail.
    """
    tape = Tape.from_token(token)
    outcome = simulate(main, tape, limit=limit)
    tape.end()
    if tape.divergence is not None:
        different = f"the run is not that of the token: {tape.divergence}"
        if outcome.error is None:
            raise SimulationError(different)
        outcome.error.add_note(different)
    if outcome.error is not None:
        raise outcome.error
    result: T = outcome.result
    return result


def _machine(name: str) -> Machine:
    factory: Any = BACKENDS.load(BACKENDS.find(name))
    if not hasattr(factory, "new_world"):
        raise UsageError(f"the backend {name!r} does not simulate; `sim` does")
    machine: Machine = factory
    return machine


def _run_main(world: "World", main: Main[Any]) -> tuple[Any, BaseException | None]:
    try:
        loop = world.main.loop = world.loops.new()
        loop.set_exception_handler(world.main.report)
        result = loop.run_until_complete(called(main))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    except NoCoroutineError:
        raise
    except (Exception, asyncio.CancelledError, SystemExit) as exc:
        return None, exc
    if world.verdict is not None:  # the program has caught it
        return None, world.verdict
    reported = [report.get("exception") for report in world.errors]
    return result, next((exc for exc in reported if exc is not None and not isinstance(exc, OSError)), None)
