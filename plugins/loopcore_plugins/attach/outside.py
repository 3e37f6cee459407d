"""Outside: what can be read of a process whose main thread executes no Python.

`_remote_debugging`, the module behind `python -m asyncio ps`, reads the memory of a process that goes on running. It
shows the stacks of threads and the awaits of tasks, without states and without figures. Python 3.14 (seen on 3.14.10)
does not find the tasks of threads other than the main one; 3.15 finds all.
"""

from typing import Any

from loopcore.errors import UsageError
from loopcore_plugins.attach.process import Process


def stacks(process: Process) -> dict[str, Any]:
    """Return the answer to `stacks`, about all threads. Raises UsageError if it cannot be read."""
    try:
        from _remote_debugging import RemoteUnwinder  # type: ignore[import-not-found, unused-ignore]

        unwinder = RemoteUnwinder(process.pid, all_threads=True)
        threads, awaited = unwinder.get_stack_trace(), unwinder.get_all_awaited_by()
    except (ImportError, OSError, RuntimeError) as exc:
        raise UsageError(f"process {process.pid} cannot be read: {exc}") from None
    # From 3.15 on there is a list for each interpreter.
    threads = [thread for each in threads for thread in getattr(each, "threads", [each])]
    return {
        "running": True,
        "waiting": process.is_waiting(process.pid),
        "threads": [
            {
                "name": "MainThread" if each.thread_id == process.pid else f"thread {each.thread_id}",
                "ident": each.thread_id,
                "native_id": each.thread_id,
                "is_loop": False,
                "stack": _places(each.frame_info),
            }
            for each in sorted(threads, key=lambda each: each.thread_id)
        ],
        "tasks": [_task(each) for thread in awaited for each in thread.awaited_by],
        "left_out": 0,
    }


def _task(found: Any) -> dict[str, Any]:
    stack = _places(found.coroutine_stack[0].call_stack) if found.coroutine_stack else []
    return {
        "id": found.task_id,
        "name": str(found.task_name),
        "coroutine": stack[0][2] if stack else "-",
        "state": "-",
        "stack": stack,
        "waits_for": stack[-1][2] if stack else "",
        "awaited_by": [each.task_name for each in found.awaited_by],  # it is the task's id
        "age": None,
    }


def _places(frames: Any) -> list[list[Any]]:
    """Return the places, outermost first."""
    lines = [getattr(getattr(each, "location", each), "lineno", 0) for each in frames]
    return [[each.filename, line or 0, each.funcname] for each, line in zip(frames, lines, strict=True)][::-1]
