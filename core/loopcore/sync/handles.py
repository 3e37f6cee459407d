"""Handles: the common part of both ends of a channel. An end is closed when its last handle is closed."""

import sys
import warnings
from collections.abc import Callable
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from loopcore.sync.errors import Closed
from loopcore.sync.waiting import release

if TYPE_CHECKING:
    from threading import RLock

    from loopcore.sync.binding import LoopBinding


class Handle:
    """One handle of one end of a channel. Thread: same as for the channel."""

    __slots__ = ("__weakref__", "_awaited", "_lock", "_release")

    def __init__(self, lock: "RLock | LoopBinding", release: Callable[[], object], awaited: Callable[[], int]) -> None:
        self._lock: RLock | LoopBinding = lock
        self._release: Callable[[], object] | None = release
        self._awaited = awaited

    @property
    def closed(self) -> bool:
        """Whether this handle was closed. The channel may be closed although this handle is not."""
        return self._release is None

    def close(self) -> None:
        """Close this handle; closing the last one of an end closes the channel. Idempotent."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        end, self._release = self._release, None
        if end is not None:
            end()

    def _check_open(self) -> None:
        if self._release is None:
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise Closed("this handle was closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is GeneratorExit:
            release(self._lock, self._close)
        else:
            self.close()

    def __del__(self, _warn: Callable[..., object] = warnings.warn) -> None:
        # Only a warning: this may run in any thread, and a channel without a lock must not be touched from it.
        if getattr(self, "_release", None) is not None and self._awaited():
            _warn(f"{self!r} was dropped without close() while a task waits for it", ResourceWarning, source=self)


def capacity_of(capacity: int) -> int:
    """Return `capacity` as an int. Raises TypeError if it is not an integer, ValueError if no list can be that long."""
    try:
        number = index(capacity)
    except TypeError:
        raise TypeError(f"a channel's capacity is a number of values, not {capacity!r}") from None
    if not 1 <= number <= sys.maxsize:
        raise ValueError(f"a channel holds 1 value or more, and at most {sys.maxsize}, not {capacity!r}")
    return number
