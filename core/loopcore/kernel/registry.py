"""The registries in which asyncio looks for tasks: the current task of each loop, and all tasks.

`asyncio.current_task` and `asyncio.all_tasks` read module-level registries. Up to Python 3.13 these are a
dict and a WeakSet. The dict is written directly, which spares two Python calls for each step. The set is not written at
all when loopcore is compiled: its tasks are in a separate list (`_native/tasks.h`), and an iteration over the set
includes that list. From 3.14 on the registries are inside the interpreter, and asyncio's functions are the only way to
write them; without the GIL they are the only safe way, which is why a free-threaded 3.13 counts as a later one here.

loopcore's own tasks are removed when they are done, not when they are collected: `all_tasks` omits done tasks anyway.
Where a task is an `asyncio.Task` (loopcore.kernel.visible, from 3.14 on), the interpreter lists it when it is made and
removes it when it is destroyed; nothing here does.
"""

import sys
from asyncio import events as asyncio_events
from asyncio import futures as asyncio_futures
from asyncio import tasks as asyncio_tasks
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import ref

from loopcore.kernel.flags import HAS_GIL

if TYPE_CHECKING:
    from loopcore.kernel.task import Task

_IN_INTERPRETER = sys.version_info >= (3, 14)
_DIRECT = not _IN_INTERPRETER and HAS_GIL

LISTS_BY_ITSELF = _DIRECT
"""Whether compiled tasks can be in a separate list."""

_swap_current_task: Any = getattr(asyncio_tasks, "_swap_current_task", None)
_add_to_awaited_by: Any = getattr(asyncio_futures, "future_add_to_awaited_by", None)
_discard_from_awaited_by: Any = getattr(asyncio_futures, "future_discard_from_awaited_by", None)
_running: dict[Any, Any] = asyncio_tasks._current_tasks if _DIRECT else {}  # type: ignore[attr-defined]
_known: Any = getattr(asyncio_tasks, "_all_tasks" if sys.version_info < (3, 12) else "_scheduled_tasks", None)
_numbers = count(1)


def next_number() -> int:
    """Return the number for the name of the next unnamed task."""
    return next(_numbers)


def enter_task(loop: object, task: object) -> Any:
    """Make `task` the current one of `loop`; return the previous one, or None."""
    if not _DIRECT:
        return _swap_current_task(loop, task)
    known = len(_running)
    previous = _running.setdefault(loop, task)
    if len(_running) != known:
        return None
    _running[loop] = task
    return previous


def leave_task(loop: object, previous: object) -> None:
    """Restore the task that `enter_task` returned."""
    if not _DIRECT:
        try:
            _swap_current_task(loop, previous)
        except RuntimeError:
            # The loop is not the running one any more: the step forked, and this is the child, which has no current
            # task. An exception that ends the step there, such as SystemExit, must not be replaced by this error.
            return
    elif previous is None:
        del _running[loop]
    else:
        _running[loop] = previous


def link(awaited: object, task: object) -> None:
    """Let the call graph show that `task` waits for `awaited`; from Python 3.14 on."""
    _add_to_awaited_by(awaited, task)


def unlink(awaited: object, task: object) -> None:
    """Undo `link`."""
    _discard_from_awaited_by(awaited, task)


@contextmanager
def as_running_loop(loop: Any) -> Iterator[None]:
    """Make `loop` the running loop of this thread, for a tick that its host asks for.

    From Python 3.14 on a thread has one current task, that of the running loop: the host's is removed meanwhile.
    """
    host = asyncio_events._get_running_loop()
    if host is loop:  # one of the loop's own callbacks runs the tick
        yield
        return
    task = None if not _IN_INTERPRETER or host is None else enter_task(host, None)
    asyncio_events._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio_events._set_running_loop(host)
        if task is not None:
            enter_task(host, task)


def enlist(task: "Task") -> None:
    """Make `task` visible to `asyncio.all_tasks`, by a weak reference.

    Not if it is the step of an `asyncio.Task` (`_has_public`), which the interpreter has listed.
    """
    if task._registration:
        return  # `__init__` was called again
    if _DIRECT:
        reference = ref(task, _known._remove)
        _known.data.add(reference)
        task._registration = reference
    else:
        if not task._has_public:
            enlist_elsewhere(task)
        task._registration = 1


def delist(task: "Task") -> None:
    """Undo `enlist`."""
    if _DIRECT:
        _known.data.discard(task._registration)
    elif not task._has_public:
        delist_elsewhere(task)
    task._registration = 0


def enlist_elsewhere(task: Any) -> None:
    """Make a compiled task visible where `LISTS_BY_ITSELF` is false."""
    asyncio_tasks._register_task(task)


def delist_elsewhere(task: Any) -> None:
    """Undo `enlist_elsewhere`."""
    asyncio_tasks._unregister_task(task)


class TaskSetView(set[Any]):
    """The weak references of asyncio's set of tasks, followed by one to each task of loopcore's list."""

    def __init__(self, references: set[Any], listed: "Callable[[], list[Task]]") -> None:
        set.__init__(self, references)
        self._listed = listed

    def own(self) -> "list[Task]":
        """Return the tasks of the list, except those being destroyed, which have no loop any more."""
        return [task for task in self._listed() if task._loop is not None]

    def __iter__(self) -> Iterator[Any]:
        return iter([*set.__iter__(self), *map(ref, self.own())])

    def __len__(self) -> int:
        return set.__len__(self) + len(self.own())

    def __contains__(self, reference: Any) -> bool:
        return set.__contains__(self, reference) or any(task is reference() for task in self.own())


def show_tasks(listed: "Callable[[], list[Task]]") -> None:
    """Make iterations over asyncio's set of tasks include the tasks that `listed` returns."""
    _known.data = TaskSetView(_known.data, listed)
