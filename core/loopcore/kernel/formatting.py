"""The texts for callbacks, futures, tasks and stacks in messages.

asyncio keeps these functions outside its classes so that its C and Python classes can share them. Programs and their
tests read the texts, so loopcore uses the same functions. This module is the only one that imports from asyncio's
private modules for them.
"""

import reprlib
import sys
import traceback
from asyncio import base_futures, base_tasks, constants, format_helpers
from types import FrameType
from typing import Any

_OWN = ("loopcore.kernel.", "loopcore._native.")


def extract_stack() -> traceback.StackSummary:
    """Return the stack without the kernel, innermost frame last: where the program created an object. For debug mode.

    Compiled functions have no frames, interpreted ones do. Kernel frames are left out, so that both builds show the
    same frames, and as many of the program's as asyncio does: it keeps at most ten.
    """
    frames = ((frame, line) for frame, line in traceback.walk_stack(sys._getframe(1)) if not _is_own(frame))
    stack = traceback.StackSummary.extract(frames, limit=constants.DEBUG_STACK_DEPTH, lookup_lines=False)
    stack.reverse()
    return stack


def _is_own(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(_OWN)


def drop_own_frames(exc: BaseException) -> None:
    """Make the traceback of `exc` begin at the coroutine, as asyncio's does.

    Interpreted, the frames of the kernel refer to the task, so the task would refer to itself through its exception. It
    would then live until the next garbage collection, and its "never retrieved" report would come only then.
    """
    trace = exc.__traceback__
    while trace is not None and _is_own(trace.tb_frame):
        trace = trace.tb_next
    exc.__traceback__ = trace


def describe_callback(callback: object, args: Any, debug: bool) -> str:
    """Return `name(args) at file:line` for a callback, as far as these are known.

    Since Python 3.13 asyncio shows the arguments in debug mode only, and so does loopcore.
    """
    try:
        if sys.version_info >= (3, 13):
            return format_helpers._format_callback_source(callback, args, debug=debug)
        return format_helpers._format_callback_source(callback, args)
    except Exception as exc:  # of the callable's own __repr__: a loop that closes must not fail for it
        return f"<{type(callback).__name__} at {id(callback):#x}: its repr raised {type(exc).__name__}>"


@reprlib.recursive_repr()
def describe_future(future: Any) -> str:
    """Return the representation of a future; a future that contains itself is abbreviated."""
    # type(), because asyncio takes the name from `__class__`, which is asyncio's class even for a program's subclass.
    return f"<{type(future).__name__} {' '.join(base_futures._future_repr_info(future))}>"


@reprlib.recursive_repr()
def describe_task(task: Any) -> str:
    """Return the representation of a task: state, name, coroutine, the future it waits for."""
    return f"<{type(task).__name__} {' '.join(base_tasks._task_repr_info(task))}>"


def task_stack(task: Any, limit: int | None) -> list[FrameType]:
    """Return the frames of a task's coroutine, or of the traceback it failed with."""
    return [] if task.cancelled() else base_tasks._task_get_stack(task, limit)


def print_task_stack(task: Any, limit: int | None, file: Any) -> None:
    """Print the stack of a task's coroutine, as `traceback` would."""
    if task.cancelled():
        print(f"No stack for {task!r}", file=file)
    else:
        base_tasks._task_print_stack(task, limit, file)
