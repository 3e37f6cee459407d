"""The shape: what a backend looks like before it does anything."""

import gc
import inspect
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from loopcore.ports.check import COMPLETION_METHODS, READINESS_METHODS
from loopcore.ports.completion import Backend, is_completion_backend
from loopcore.ports.interest import READ
from loopcore.ports.operations import Receive
from loopcore.ports.readiness import BACKEND_API, Capability, ProbeResult
from loopcore.testing.conformance.base import Level
from loopcore.testing.conformance.surroundings import PATIENCE, Pair, open_files

ARGUMENTS = {"register": 2, "modify": 2, "unregister": 1, "wait": 1, "submit": 1, "cancel": 1}
"""How many arguments core passes to each method; 0 if it is not listed."""


class Shape(Level):
    """Name, capabilities, version, methods, what `wait` returns, and a probe without side effects."""

    def test_backend_has_a_name_and_capabilities(self, port: Backend) -> None:
        assert isinstance(port.name, str)
        assert port.name
        assert isinstance(port.capabilities, frozenset)
        assert all(isinstance(capability, Capability) for capability in port.capabilities)

    def test_backend_has_the_name_it_is_installed_under(self, port: Backend) -> None:
        if not isinstance(self.backend, str) or ":" in self.backend:
            pytest.skip("it is tested without being installed")
        assert port.name == self.backend

    def test_backend_is_written_for_this_version_of_the_port(self, port: Backend) -> None:
        wanted = getattr(port, "backend_api", None)
        assert wanted is not None, f"say which version it is written for: backend_api = {BACKEND_API}"
        assert wanted[0] == BACKEND_API[0]
        assert tuple(wanted) <= BACKEND_API

    def test_methods_take_what_core_calls_them_with(self, port: Backend) -> None:
        for method in COMPLETION_METHODS if is_completion_backend(port) else READINESS_METHODS:
            arguments = [0] * ARGUMENTS.get(method, 0)
            try:
                signature = inspect.signature(getattr(port, method))
            except ValueError:  # a compiled method without a signature
                continue
            signature.bind(*arguments)

    def test_wait_returns_tuples(self, port: Any, pair: Pair) -> None:
        if is_completion_backend(port):
            port.submit(Receive(pair[0].fileno(), 100))
        else:
            port.register(pair[0].fileno(), READ)
        assert isinstance(port.wait(0.0), Sequence)
        pair[1].send(b"x")
        told = port.wait(PATIENCE)
        assert isinstance(told, Sequence)
        assert [type(each) for each in told] == [tuple]
        if is_completion_backend(port):
            _, _, more = told[0]
            assert type(more) is bool
        else:
            fd, ready = told[0]
            assert isinstance(fd, int)
            assert isinstance(ready, int)

    def test_probe_says_that_it_runs_here(self) -> None:
        assert self.factory().probe() == ProbeResult(True)
        assert isinstance(self.factory().probe(), ProbeResult)

    def test_probe_and_making_leave_no_trace(self) -> None:
        threads, descriptors = threading.active_count(), open_files()
        for _ in range(3):
            self.factory().probe()
        assert open_files() == descriptors
        port = self.make()
        port.close()
        del port
        gc.collect()
        assert open_files() == descriptors
        assert threading.active_count() == threads
