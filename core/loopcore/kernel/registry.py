"""Where asyncio looks for tasks: which one is running in a loop, and which there are.

`asyncio.current_task` and `asyncio.all_tasks` read module-level registries. Up to Python 3.13 these are a
dict and a WeakSet. The dict is written directly, which spares two Python calls for each step. The set is not written at
all when loopcore is compiled: its tasks are in a list of their own (`loopcore.native.tasks`), which whoever iterates
over the set is shown as well. From 3.14 on the registries are inside the interpreter, and asyncio's functions are the
only way.

A task is taken off the list when it is done, not when it is collected: `all_tasks` leaves out what is done
anyway.
"""

import sys
from asyncio import events as asyncio_events
from asyncio import tasks as asyncio_tasks
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from weakref import ref

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

_DIRECT = sys.version_info < (3, 14)

LISTS_BY_ITSELF = _DIRECT and "t" not in getattr(sys, "abiflags", "")
"""Whether compiled tasks can have a list of their own. Not without the GIL, which is what keeps that consistent."""

LEAVES_TASKS = _DIRECT and bool(cython.compiled)
"""Whether a task may be left as the current one of its loop for another to be put in its place."""

_tasks = asyncio_tasks
_running: dict[Any, Any] = _tasks._current_tasks if _DIRECT else {}  # type: ignore[attr-defined]
_known: Any = getattr(_tasks, "_all_tasks" if sys.version_info < (3, 12) else "_scheduled_tasks", None)
_numbers = count(1)


def next_number() -> int:
    """Return the number by which the next task is called that nobody has named."""
    return next(_numbers)


def enter_task(loop: Any, task: Any) -> Any:
    """Make `task` the current one of `loop`; return the one that was, or None."""
    if not _DIRECT:
        return _tasks._swap_current_task(loop, task)  # type: ignore[attr-defined]
    known = len(_running)
    previous = _running.setdefault(loop, task)
    if len(_running) != known:
        return None
    _running[loop] = task
    return previous


def leave_task(loop: Any, previous: Any) -> None:
    """Restore what `enter_task` returned."""
    if not _DIRECT:
        try:
            _tasks._swap_current_task(loop, previous)  # type: ignore[attr-defined]
        except RuntimeError:
            # The loop is no longer the running one: the step forked, and this is the child, which has no current task.
            # What ends the step there, SystemExit for instance, must not be replaced by this.
            return
    elif previous is None:
        del _running[loop]
    else:
        _running[loop] = previous


@contextmanager
def as_running_loop(loop: Any) -> Iterator[None]:
    """Make `loop` the running one of this thread for a tick that its host asks for.

    From Python 3.14 on a thread has one current task, the running loop's: that of the host is put aside meanwhile.
    """
    host = asyncio_events._get_running_loop()
    if host is loop:  # one of its own callbacks makes the tick
        yield
        return
    task = None if _DIRECT or host is None else enter_task(host, None)
    asyncio_events._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio_events._set_running_loop(host)
        if task is not None:
            enter_task(host, task)


def replace_left(loop: Any, task: Any) -> None:
    """Make `task` the current one in place of another that has left without `leave_task`."""
    _running[loop] = task


def enlist(task: Any) -> None:
    """Make `task` visible to `asyncio.all_tasks`, weakly."""
    if not _DIRECT:
        _tasks._register_task(task)
        task._registration = 1
        return
    reference = ref(task, _known._remove)
    _known.data.add(reference)
    task._registration = reference


def delist(task: Any) -> None:
    """Take back an `enlist`."""
    if _DIRECT:
        _known.data.discard(task._registration)
    # Else the interpreter leaves done tasks out by itself.
    task._registration = 0


def enlist_elsewhere(task: Any) -> None:
    """Make a compiled task visible where `LISTS_BY_ITSELF` is false."""
    _tasks._register_task(task)


def delist_elsewhere(task: Any) -> None:
    """Take back an `enlist_elsewhere`."""
    if _DIRECT:
        _tasks._unregister_task(task)


class TaskSetView(set[Any]):
    """The weak references of asyncio's set of tasks, and after them one to each task of loopcore's own list."""

    def __init__(self, references: set[Any], listed: Callable[[], list[Any]]) -> None:
        set.__init__(self, references)
        self._listed = listed

    def own(self) -> list[Any]:
        """Return the tasks of the list. One that is being destroyed has no loop any more, and is left out."""
        return [task for task in self._listed() if task._loop is not None]

    def __iter__(self) -> Iterator[Any]:
        return iter([*set.__iter__(self), *map(ref, self.own())])

    def __len__(self) -> int:
        return set.__len__(self) + len(self.own())

    def __contains__(self, reference: Any) -> bool:
        return set.__contains__(self, reference) or any(task is reference() for task in self.own())


def show_tasks(listed: Callable[[], list[Any]]) -> None:
    """Have whoever iterates over asyncio's set of tasks shown what `listed` returns as well."""
    _known.data = TaskSetView(_known.data, listed)
