"""The simulated kernel answers as Linux does: the same program, the same results, errors and readiness.

Each program runs once on the kernel, over loopback, and once in a simulation whose choices are all those of asyncio.
"""

import sys

import pytest

from tests.backends.sim import datagram_programs, pipe_programs, socket_programs, stream_programs
from tests.backends.sim.recording import Program, on_linux, programs_of, simulated

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the simulation answers as Linux does")

PROGRAMS = [
    program
    for module in (stream_programs, datagram_programs, pipe_programs, socket_programs)
    for program in programs_of(module)
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_same_answers(program: Program) -> None:
    assert simulated(program) == on_linux(program)
