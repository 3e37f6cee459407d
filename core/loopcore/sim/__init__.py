"""A simulated machine for asyncio programs: find a race before production does, and replay it.

    from loopcore import sim

    async def main(): ...

    sim.check(main)                 # many schedules; the first failure, shrunk, with a token
    sim.replay(main, "sim1_...")    # that run again

The program runs on loopcore's own transports, TLS and streams, over a kernel of tables (the backend `sim`): sockets,
pipes, names, files, threads, clocks and signals. Every choice, such as what arrives first, comes from one tape.

Imports everything but `cli`, and replaces what the simulated machine provides.
"""

from loopcore.sim.cancelling import CANCELLED, SwallowedCancellationError, may_cancel
from loopcore.sim.checking import Failure, Search, SimulationFailedError, check, diverges, in_words, search
from loopcore.sim.errors import DeadlockError, LivelockError, NotSimulatedError, SimulationError
from loopcore.sim.history import History
from loopcore.sim.running import Outcome, replay, run, simulate
from loopcore.sim.scenario import (
    Host,
    always,
    choose,
    cut,
    fail_name,
    heal,
    host,
    link,
    note,
    now,
    partition,
    reached,
    this_host,
)
from loopcore.sim.tape import Level, Tape

__all__ = [
    "CANCELLED",
    "DeadlockError",
    "Failure",
    "History",
    "Host",
    "Level",
    "LivelockError",
    "NotSimulatedError",
    "Outcome",
    "Search",
    "SimulationError",
    "SimulationFailedError",
    "SwallowedCancellationError",
    "Tape",
    "always",
    "check",
    "choose",
    "cut",
    "diverges",
    "fail_name",
    "heal",
    "host",
    "in_words",
    "link",
    "may_cancel",
    "note",
    "now",
    "partition",
    "reached",
    "replay",
    "run",
    "search",
    "simulate",
    "this_host",
]
