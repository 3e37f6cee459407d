"""Backends that do nothing, and entry points that lead to them."""

import pytest

from loopcore.errors import UsageError
from loopcore.ports.readiness import ProbeResult
from loopcore.selection.discovery import choose_backend


class Fake:
    """Has what the port asks for, and does nothing."""

    name = "fake"
    capabilities: frozenset = frozenset()

    @classmethod
    def probe(cls):
        return ProbeResult(True)

    def register(self, fd, interest): ...
    def modify(self, fd, interest): ...
    def unregister(self, fd): ...
    def wait(self, timeout): ...
    def wake(self): ...
    def close(self): ...


class Absent(Fake):
    @classmethod
    def probe(cls):
        return ProbeResult(False, "the moon is in the wrong phase")


class Misled(Fake):
    """Was given a setting that it does not know."""

    @classmethod
    def probe(cls):
        raise UsageError("MISLED_BY=up is no direction")


class Distribution:
    def __init__(self, name, version="1.0"):
        self.name = name
        self.version = version


class Entry:
    """An entry point that counts how often it is loaded."""

    def __init__(self, name, target, distribution="loopcore", value=None):
        self.name = name
        self.value = value or f"package_of_{name}:Backend"
        self.dist = distribution and Distribution(distribution)
        self.target = target
        self.loaded = 0

    def load(self):
        self.loaded += 1
        if isinstance(self.target, BaseException):
            raise self.target
        return self.target


class NoWake(Fake):
    wake = None


class Probeless(Fake):
    probe = None


class Versioned(Fake):
    backend_api: object = (1, 0)


def refusal(kind, spec=None):
    """Return what `choose_backend(spec)` says as it raises just this kind of error."""
    with pytest.raises(kind) as caught:
        choose_backend(spec)
    assert type(caught.value) is kind
    return str(caught.value)
