"""Where asyncio looks for tasks: which one is running in a loop, and which there are.

`asyncio.current_task` and `asyncio.all_tasks` read module-level registries. Up to Python 3.13 these are a
dict and a WeakSet, and writing them directly spares a Python call for each step and each new task; from
3.14 on they are inside the interpreter, and asyncio's functions are the only way.

A task is taken off the list when it is done, not when it is collected: `all_tasks` leaves out what is done
anyway, and a weak reference that is dropped early needs no callback.
"""

import sys
from asyncio import tasks as asyncio_tasks
from typing import Any
from weakref import ref

_DIRECT = sys.version_info < (3, 14)

_tasks = asyncio_tasks
_running: dict[Any, Any] = _tasks._current_tasks if _DIRECT else {}  # type: ignore[attr-defined]
_known: Any = getattr(_tasks, "_all_tasks" if sys.version_info < (3, 12) else "_scheduled_tasks", None)


def enter_task(loop: Any, task: Any) -> Any:
    """Make `task` the current one of `loop`; return the one that was, or None."""
    if not _DIRECT:
        return _tasks._swap_current_task(loop, task)  # type: ignore[attr-defined]
    previous = _running.get(loop)
    _running[loop] = task
    return previous


def leave_task(loop: Any, previous: Any) -> None:
    """Restore what `enter_task` returned."""
    if not _DIRECT:
        _tasks._swap_current_task(loop, previous)  # type: ignore[attr-defined]
    elif previous is None:
        del _running[loop]
    else:
        _running[loop] = previous


def enlist(task: Any) -> Any:
    """Make `task` visible to `asyncio.all_tasks`, weakly; return what `delist` needs."""
    if not _DIRECT:
        _tasks._register_task(task)
        return None
    reference = ref(task, _known._remove)
    _known.data.add(reference)
    return reference


def delist(entry: Any) -> None:
    """Take back an `enlist`."""
    if not _DIRECT:
        return  # the interpreter leaves done tasks out by itself
    _known.data.discard(entry)
