"""Leaks of a test: descriptors, threads, tasks, unraisable exceptions, errors that a loop reported.

Thread: the one that runs the test. Descriptors are counted where the system lists them (/proc). A number that now
refers to another file is a new descriptor. Two exceptions: one epoll instance replacing another, which even the
system cannot distinguish, and unnamed temporary files: pytest's capfd gets new ones in each phase.
"""

import asyncio
import gc
import logging
import os
import stat
import sys
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from loopcore.kernel.task import Task

THREAD_PATIENCE: Final = 10.0
"""Seconds a thread may take to end after its executor was shut down: `loop.close` does not wait for it."""


class File(NamedTuple):
    """The identity of an open file: device and inode, which renaming or removing it does not change."""

    device: int
    inode: int
    is_nameless: bool

    def may_be(self, other: "File | None") -> bool:
        """Return whether it is `other`, or both are unnamed regular files."""
        if other is None:
            return False
        return self[:2] == other[:2] or (self.is_nameless and other.is_nameless)


class Reports(logging.Handler):
    """Collects what loops report through their default exception handler: errors on the logger "asyncio"."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message, and the exception that came with it."""
        cause = record.exc_info[1] if record.exc_info else None
        self.found.append(record.getMessage() + (f" [{cause!r}]" if cause else ""))


class Watch:
    """Records the state of the process when it is made, and compares at `end`; includes tasks only if asked to."""

    def __init__(self, tasks: bool = False) -> None:
        self._looks_at_tasks = tasks
        self.unraisable: list[str] = []
        self.reports = Reports()
        self._tasks = weakref.WeakSet(pending_tasks() if tasks else ())
        self._hook_before = sys.unraisablehook
        sys.unraisablehook = self._note
        logging.getLogger("asyncio").addHandler(self.reports)
        self._threads, self._descriptors = set(threading.enumerate()), files_of(open_descriptors())

    def end(self, errors_are_expected: bool = False) -> list[str]:
        """Return a complaint for each kind of leak; errors that a loop reported may be expected."""
        gc.collect()
        left = {
            "threads": self._new_threads(),
            "descriptors": self._new_descriptors(),
            "pending tasks": self._new_tasks(),
            "unraisable exceptions": self.unraisable,
            "errors reported by a loop": [] if errors_are_expected else self.reports.found,
        }
        logging.getLogger("asyncio").removeHandler(self.reports)
        sys.unraisablehook = self._hook_before
        return [f"{kind}: {'; '.join(what)}" for kind, what in left.items() if what]

    def _note(self, event: "sys.UnraisableHookArgs") -> None:
        self.unraisable.append(f"{event.err_msg or 'exception ignored in'} {event.object!r}: {event.exc_value!r}")

    def _new_descriptors(self) -> list[str]:
        names = open_descriptors()
        files = files_of(names)
        return [f"{fd} -> {names[fd]}" for fd, file in files.items() if not file.may_be(self._descriptors.get(fd))]

    def _new_tasks(self) -> list[str]:
        return [repr(task) for task in pending_tasks() if task not in self._tasks] if self._looks_at_tasks else []

    def _new_threads(self) -> list[str]:
        started = set(threading.enumerate()) - self._threads
        for thread in started:
            thread.join(THREAD_PATIENCE)
        return [repr(thread) for thread in started if thread.is_alive()]


def open_descriptors() -> dict[int, str]:
    """Return the process's descriptors and the file of each; empty where the system has no list of them."""
    found: dict[int, str] = {}
    folder = Path("/proc/self/fd")
    if folder.is_dir():
        for name in os.listdir(folder):
            try:
                found[int(name)] = os.readlink(folder / name)
            except OSError:  # the descriptor of the listing itself, already closed
                continue
    return found


def files_of(descriptors: Iterable[int]) -> dict[int, File]:
    """Return the file of each descriptor."""
    found: dict[int, File] = {}
    for fd in descriptors:
        try:
            status = os.fstat(fd)
        except OSError:  # already closed, by another thread
            continue
        is_nameless = stat.S_ISREG(status.st_mode) and not status.st_nlink
        found[fd] = File(status.st_dev, status.st_ino, is_nameless)
    return found


def pending_tasks() -> "list[asyncio.Task[Any] | Task]":
    """Return the tasks that are not done, of every loop that is not closed. Scans all objects: some milliseconds."""
    kinds = (asyncio.Task, Task)
    # Not `isinstance`, which would call into proxies whose object is gone.
    tasks: list[asyncio.Task[Any] | Task] = [each for each in gc.get_objects() if issubclass(type(each), kinds)]
    return [task for task in tasks if not task.done() and not task.get_loop().is_closed()]
