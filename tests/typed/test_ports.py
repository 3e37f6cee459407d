"""The types of the ports: what counts as a backend and as a clock. `mypy` checks this module, pytest runs it."""

from collections.abc import Sequence
from typing import assert_type

import loopcore
from loopcore import Capability
from loopcore.ports.completion import Backend
from loopcore.ports.readiness import BackendFactory, ReadyEvent
from loopcore_backends.select_ import SelectBackend


class Port:
    """The methods of the readiness port."""

    def __init__(self) -> None:
        self._real = SelectBackend()

    @classmethod
    def probe(cls) -> loopcore.ProbeResult:
        return loopcore.ProbeResult(True)

    def register(self, fd: int, interest: int) -> None:
        self._real.register(fd, interest)

    def modify(self, fd: int, interest: int) -> None:
        self._real.modify(fd, interest)

    def unregister(self, fd: int) -> None:
        self._real.unregister(fd)

    def wait(self, timeout: float | None) -> Sequence[ReadyEvent]:
        return self._real.wait(timeout)

    def wake(self) -> None:
        self._real.wake()

    def close(self) -> None:
        self._real.close()


class WithAttributes(Port):
    name = "attributes"
    capabilities = frozenset[Capability]()


class WithProperties(Port):
    @property
    def name(self) -> str:
        return "properties"

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset()


class Clock:
    @property
    def resolution(self) -> float:
        return 1e-6

    def now(self) -> float:
        return 7.0


def made_by(factory: BackendFactory) -> Backend:
    backend = factory()
    assert_type(backend, Backend)
    return backend


def test_a_backend_has_its_name_and_capabilities_as_attributes_or_as_properties() -> None:
    for backend, name in ((WithAttributes(), "attributes"), (made_by(WithProperties), "properties")):
        loop = loopcore.EventLoop(backend)
        try:
            assert loop.backend.name == name
        finally:
            loop.close()
    loopcore.EventLoop(WithProperties()).close()


def test_the_resolution_of_a_clock_may_be_a_property() -> None:
    loop = loopcore.EventLoop(clock=Clock())
    try:
        assert loop.time() == 7.0
    finally:
        loop.close()


def test_a_class_that_inherits_a_port_may_set_its_name() -> None:
    class Inherits(loopcore.ReadinessBackend):
        def __init__(self) -> None:
            self.name = "inherits"  # type: ignore[misc]

    assert Inherits().name == "inherits"  # type: ignore[abstract]
