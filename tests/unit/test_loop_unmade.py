"""A loop that cannot be made: what it had taken over is closed."""

from typing import Any

import pytest

import loopcore


class Waiting:
    """A backend that does nothing, but notes that it was closed."""

    name = "waiting"
    capabilities: frozenset[Any] = frozenset()
    is_closed = False

    def register(self, fd: int, interest: int) -> None: ...
    def modify(self, fd: int, interest: int) -> None: ...
    def unregister(self, fd: int) -> None: ...
    def wait(self, timeout: float | None) -> list[Any]:
        return []

    def wake(self) -> None: ...
    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("broken", ["clock", "part"])
def test_loop_that_cannot_be_made_closes_its_backend(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Waiting()
    if broken == "part":
        monkeypatch.setattr("loopcore.loop.AtForkState", lambda *parts: 1 / 0)
    with pytest.raises((AttributeError, ZeroDivisionError)):
        loopcore.EventLoop(backend, clock=object() if broken == "clock" else None)  # type: ignore[arg-type]
    assert backend.is_closed
