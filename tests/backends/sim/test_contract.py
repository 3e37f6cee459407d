"""The contract of a backend, on the simulated kernel: each test runs inside a simulation, in the order of asyncio."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopcore.sim.running import simulation
from loopcore.sim.tape import Fifo, Tape
from loopcore.testing.conformance import BackendContract
from loopcore_backends.sim import SimBackend

PROCESSES = "a simulation has no real processes: subprocess and os.fork raise NotSimulatedError"


class TestSim(BackendContract):
    backend = SimBackend  # not its name: it runs in simulations only, and what is collected is outside one
    cannot = {
        "test_child_is_written_to_read_from_and_its_end_is_told": PROCESSES,
        "test_loop_in_a_forked_child_disturbs_none_of_its_parents": PROCESSES,
        "test_close_in_a_forked_child_leaves_the_parents_port_alone": PROCESSES,
        "test_device_that_cannot_be_watched_is_read": "a device of the real system is no descriptor of a simulation",
        "test_stream_of_hook_calls_is_that_of_a_built_in_backend": "other backends do not run in a simulation",
    }

    @pytest.fixture(autouse=True)
    def _world(self, _declared: None) -> Iterator[None]:
        with simulation(Tape(Fifo())):
            yield

    @pytest.fixture
    def tmp_path(self, _world: None) -> Path:
        return Path(tempfile.mkdtemp())  # on the simulated disk
