"""The tests of transports and streams on the simulated kernel: which ones run there, and inside which simulation.

One rule: every test of FOLDERS does whose file uses none of REAL. CANNOT has the others, with the reason.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

BACKEND = "sim"

FOLDERS = tuple(Path(__file__).parents[1] / each for each in ("transports", "unit/streams"))

REAL = frozenset({"threading", "subprocess", "signal", "select", "tests.transports.process_support"})
"""Modules of what a simulation lacks, or makes its own way: a test file that uses one runs on real kernels only."""

OWN_CLASS = "a subclass of socket.socket that was defined before the simulation is one of the real class"
CONTROL = "descriptors do not travel over simulated sockets (SCM_RIGHTS)"
DEVICES = "terminals, devices and named pipes are those of the real system"

CANNOT = {
    "test_both_directions_of_one_terminal": DEVICES,
    "test_a_device_is_read_on_after_its_protocol_has_ended_a_run": DEVICES,
    "test_device_that_is_always_ready_is_read_in_turn": DEVICES,
    "test_fifo_is_read": DEVICES,
    "test_fifo_opened_both_ways_has_a_reader": DEVICES,
    "test_bytes_arrive[sim-terminal_pair]": DEVICES,
    "test_pipe_is_closed_for_who_runs_right_after_connection_lost[sim-terminal_pair]": DEVICES,
    "test_terminal_whose_other_side_has_gone_is_lost_with_the_error": DEVICES,
    "test_write_is_there_at_once[sim-terminal_pair]": DEVICES,
    "test_a_socket_that_does_tls_itself_is_refused": "SSLContext.wrap_socket() is not simulated",
    "test_five_hundred_cycles_leave_nothing_behind": "it counts objects, and the log of the simulation grows",
    "test_nothing_can_be_written_while_the_kernel_sends": "the simulated kernel has no sendfile: the loop copies",
    "test_writes_of_one_tick_leave_in_one_call": "SOCK_SEQPACKET is not simulated",
    "test_no_byte_is_lost_when_descriptors_come_along": CONTROL,
    "test_a_large_write_that_is_interrupted_leaves_in_the_next_run": OWN_CLASS,
    "test_a_send_that_fails_is_tried_once_and_ends_the_connection": OWN_CLASS,
    "test_a_write_that_the_kernel_takes_in_parts_pauses_and_resumes": OWN_CLASS,
    "test_an_answer_that_the_kernel_takes_in_parts_arrives_whole": OWN_CLASS,
    "test_an_answer_whose_send_is_interrupted_leaves_in_the_next_run": OWN_CLASS,
}


def runs(module: ModuleType) -> bool:
    """Return whether the tests of `module` run on the simulated kernel too."""
    if not any(Path(module.__file__ or "").is_relative_to(folder) for folder in FOLDERS):
        return False
    return REAL.isdisjoint(filter(None, map(_home_of, vars(module).values())))


def cannot(name: str) -> str | None:
    """Return why the test of this name, with or without its parameters, does not run on the simulated kernel."""
    return CANNOT.get(name) or CANNOT.get(name.partition("[")[0])


@contextmanager
def world() -> Iterator[None]:
    """Let the body see the simulated kernel, which goes on as asyncio does."""
    from loopcore.sim.running import simulation
    from loopcore.sim.tape import Fifo, Tape

    with simulation(Tape(Fifo())):
        yield


def _home_of(value: object) -> str | None:
    return value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
