"""`select.kqueue` over libkqueue, by ctypes: an independent implementation of the API, on epoll. For tests only.

As `select` does it: EINTR is retried, timeouts are rounded up, the descriptor closes with the object. `load` takes the
path of the shared object, which tests find in LOOPCORE_TEST_KQUEUE.
"""

import ctypes
import errno
import math
import os
from collections.abc import Iterable, Mapping
from time import monotonic, sleep
from typing import Any

from tests.backends.fake_kqueue.dialects import DIALECTS
from tests.backends.fake_kqueue.queue import names
from tests.backends.fake_kqueue.records import kevent

DIALECT = DIALECTS["freebsd"]


class _Kevent(ctypes.Structure):
    """struct kevent, as libkqueue has it."""

    _fields_ = (
        ("ident", ctypes.c_size_t),
        ("filter", ctypes.c_short),
        ("flags", ctypes.c_ushort),
        ("fflags", ctypes.c_uint),
        ("data", ctypes.c_ssize_t),
        ("udata", ctypes.c_void_p),
    )


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


def load(path: str) -> Mapping[str, Any]:
    """Return what `select` has where there is a kqueue, on the library at `path`. Raises OSError if it is none."""
    library: Any = ctypes.CDLL(path, use_errno=True)

    class kqueue:
        """As `select.kqueue`."""

        def __init__(self) -> None:
            before = _descriptors()
            self._number = _checked(library.kqueue())
            self._others = _descriptors() - before - {self._number}

        @property
        def closed(self) -> bool:
            return self._number < 0

        def fileno(self) -> int:
            if self.closed:
                raise ValueError("I/O operation on closed kqueue object")
            return self._number

        def close(self) -> None:
            number, self._number = self._number, -1
            if number >= 0:
                os.close(number)
                # A thread of the library's sees that, and closes the others a little later.
                patience = monotonic() + 1.0
                while self._others & _descriptors() and monotonic() < patience:
                    sleep(0.001)

        def __del__(self) -> None:
            self.close()

        def control(
            self, changelist: Iterable[kevent] | None, max_events: int, timeout: float | None = None, /
        ) -> list[kevent]:
            number = self.fileno()
            if timeout is not None and (timeout < 0 or not timeout < 2.0**63 / 1e9):
                raise (ValueError if timeout < 0 else OverflowError)("timeout out of range")
            changes = [_Kevent(*each._fields()) for each in changelist or ()]
            given, room = (_Kevent * len(changes))(*changes), (_Kevent * max_events)()
            end = None if timeout is None else monotonic() + timeout
            while True:
                spec = None if end is None else _timespec(end - monotonic())
                found = library.kevent(number, given, len(changes), room, max_events, spec)
                if found >= 0 or ctypes.get_errno() != errno.EINTR:
                    break
            return [
                kevent(each.ident, each.filter, each.flags, each.fflags, each.data, each.udata or 0)
                for each in room[: _checked(found)]
            ]

    return {**names(DIALECT), "kqueue": kqueue}


def _descriptors() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/fd")}


def _timespec(seconds: float) -> Any:
    whole, rest = divmod(math.ceil(max(seconds, 0.0) * 1e9), 1_000_000_000)
    return ctypes.byref(_Timespec(whole, rest))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
