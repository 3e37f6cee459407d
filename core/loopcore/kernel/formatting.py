"""How callbacks, futures, tasks and stacks are written in messages.

asyncio keeps these functions outside its classes so that its own C and Python classes can share them; the
texts are what programs and their tests read, so loopcore shares them too. Everything taken from asyncio's
private modules is taken here.
"""

import reprlib
import sys
import traceback
from asyncio import base_futures, base_tasks, constants, format_helpers
from types import FrameType
from typing import Any

_OWN = ("loopcore.kernel.", "loopcore.native.")


def extract_stack() -> traceback.StackSummary:
    """Return the stack without the kernel, innermost frame last: where the program made something. For debug mode.

    Compiled functions have no frames, interpreted ones do. They are left out, so that both builds show the same, and
    as much of the program as asyncio does: it keeps no more than ten frames.
    """
    frames = ((frame, line) for frame, line in traceback.walk_stack(sys._getframe(1)) if not _is_own(frame))
    stack = traceback.StackSummary.extract(frames, limit=constants.DEBUG_STACK_DEPTH, lookup_lines=False)
    stack.reverse()
    return stack


def _is_own(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(_OWN)


def drop_own_frames(exc: BaseException) -> None:
    """Let the traceback of `exc` begin at the coroutine, as asyncio's does.

    Interpreted, the frames of the kernel hold the task, and the task would hold itself through its exception:
    it would live until the next garbage collection, and so would its report that nobody asked for the exception.
    """
    trace = exc.__traceback__
    while trace is not None and _is_own(trace.tb_frame):
        trace = trace.tb_next
    exc.__traceback__ = trace


def describe_callback(callback: Any, args: Any, debug: bool) -> str:
    """Return `name(args) at file:line` for a callback, as far as it can be told.

    Since Python 3.13 asyncio shows the arguments in debug mode only; so it is here.
    """
    if sys.version_info >= (3, 13):
        return format_helpers._format_callback_source(callback, args, debug=debug)
    return format_helpers._format_callback_source(callback, args)


@reprlib.recursive_repr()
def describe_future(future: Any) -> str:
    """Return the representation of a future; a future that contains itself is cut short."""
    # type(), for asyncio's own takes the name from `__class__`, which says asyncio's class for those of a program too.
    return f"<{type(future).__name__} {' '.join(base_futures._future_repr_info(future))}>"


@reprlib.recursive_repr()
def describe_task(task: Any) -> str:
    """Return the representation of a task: state, name, coroutine, what it waits for."""
    return f"<{type(task).__name__} {' '.join(base_tasks._task_repr_info(task))}>"


def task_stack(task: Any, limit: int | None) -> list[Any]:
    """Return the frames of a task's coroutine, or of the traceback it ended with."""
    return base_tasks._task_get_stack(task, limit)


def print_task_stack(task: Any, limit: int | None, file: Any) -> None:
    """Print the stack of a task's coroutine, as `traceback` would."""
    base_tasks._task_print_stack(task, limit, file)
