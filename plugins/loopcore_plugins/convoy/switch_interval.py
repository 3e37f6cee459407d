"""The interpreter's switch interval, lowered for as long as any loop asks for it.

A thread that wants the GIL waits for a switch interval before it asks the holder to release it (sys.setswitchinterval;
5 ms unless the program says otherwise). There is one interval for all threads of an interpreter, so the loops share
what is here: the shortest request counts, and the program's value returns with the last release.

A program may set the interval itself. One that is at most as long as the request is not touched. One that was set while
the interval was lowered stays, and the plugin leaves the interval alone until no loop that uses it runs any more.

Thread: any.
"""

import os
import sys
import threading


class SwitchInterval:
    """The requests, by user, and the value to return to. Only one object of a process may be in use."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: a garbage collection under it may close a loop
        self._users: set[object] = set()
        self._requests: dict[object, float] = {}
        self._programs: float | None = None  # the program's value, while ours is set
        self._ours = 0.0
        self._left_alone = False

    def add_user(self, user: object) -> None:
        """Expect requests of `user`, a run of a loop."""
        with self._lock:
            self._users.add(user)

    def remove_user(self, user: object) -> None:
        """Drop the request of `user`, and expect no more. Idempotent."""
        self.release(user)
        with self._lock:
            self._users.discard(user)
            if not self._users:
                self._left_alone = False

    def request(self, user: object, seconds: float) -> None:
        """Make the interval `seconds` long, if it is longer."""
        with self._lock:
            self._requests[user] = seconds
            self._adjust()

    def release(self, user: object) -> None:
        """Drop the request of `user`. Idempotent."""
        with self._lock:
            if self._requests.pop(user, None) is not None:
                self._adjust()

    def in_child(self) -> None:
        """In a forked child: another thread of the parent may have held the lock. Idempotent."""
        self._lock = threading.RLock()

    def _adjust(self) -> None:
        if self._programs is not None:
            if sys.getswitchinterval() == self._ours:
                sys.setswitchinterval(self._programs)
            else:
                self._left_alone = True
            self._programs = None
        wanted = min(self._requests.values(), default=float("inf"))
        current = sys.getswitchinterval()
        if wanted < current and not self._left_alone:
            sys.setswitchinterval(wanted)
            self._programs, self._ours = current, sys.getswitchinterval()  # it is rounded to microseconds


SWITCH_INTERVAL = SwitchInterval()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SWITCH_INTERVAL.in_child)
