"""The task tree: every task of a loop, where it is suspended, what it awaits, and the tasks that await it.

asyncio has no such record before Python 3.14, so it is read from existing attributes: a task has the future that
it awaits (`_fut_waiter`), a coroutine what it awaits (`cr_await`), and a future its callbacks. `gather`,
`wait`, `wait_for`, `shield` and `TaskGroup` put a future of their own between two tasks; their callbacks on the
inner one lead to it, as a closure, an argument of a partial, or a bound method. Functions that leave no such trace
(`as_completed`, queues, locks) show as a waiting task, with the name of the function it waits in.

Thread: any that has the GIL. Nothing is changed and nothing is locked, so the views of a loop that keeps running may be
of slightly different moments. They are plain values: they keep no task alive. Without the GIL a task that runs may free
what is being read, so only the loop's own thread may look: `read_tasks`.
"""

import asyncio
import concurrent.futures
import functools
import gc
import threading
from collections.abc import Callable, Iterator
from types import AsyncGeneratorType, CodeType, CoroutineType, FrameType, FunctionType, GeneratorType, MethodType
from typing import Any, Final, Literal, NamedTuple, TypeVar

from loopcore.build_info import has_gil

T = TypeVar("T")
State = Literal["running", "ready", "waiting"]

DEEPEST: Final = 100
"""The most coroutines followed from one to the next; a deeper chain is recursion."""

_ATTRIBUTES: Final = (
    (CoroutineType, "cr_frame", "cr_await"),
    (GeneratorType, "gi_frame", "gi_yieldfrom"),
    (AsyncGeneratorType, "ag_frame", "ag_await"),
)
IN_THREAD: Final = ".run_sync_in_worker_thread"
"""The coroutine of anyio that waits for a function in a thread; FastAPI calls plain functions that way."""
_SUSPENDABLE: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)

BLOCKED_AFTER: Final = 1.0
"""Seconds that a loop has to look at its tasks itself."""

INSTALLED: Final = ("site-packages", "dist-packages")
"""Directories of packages that are not the program's own."""
_CALLABLE: Final = (FunctionType, MethodType)


class Place(NamedTuple):
    """A line that is being executed. `function` is the qualified name."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}, in {self.function}"


class TaskView(NamedTuple):
    """A task at the moment of the view."""

    id: int
    """The task's `id()`: unique in its process while the task lives."""
    name: str
    coroutine: str
    """The qualified name of the coroutine function."""
    state: State
    stack: tuple[Place, ...]
    """The chain of coroutines, outermost first. Of a running task only the part that is not on its thread's stack."""
    waits_for: str
    """A description of what it waits for; empty unless `state` is waiting."""
    awaited_by: tuple[int, ...]
    """The ids of the tasks that await this one, directly or through a gather, a task group and the like."""


def place_of(code: CodeType, line: int | None) -> Place:
    """Return the place of `line` in `code`; an unknown line (the frame is just ending) is 0."""
    return Place(code.co_filename, line or 0, code.co_qualname)


def view_tasks(loop: asyncio.AbstractEventLoop) -> dict[int, TaskView]:
    """Return a view of each task of `loop` that is not done, by its id."""
    tasks = _tasks_of(loop)
    running = asyncio.current_task(loop)
    waiters: dict[int, list[Any]] = {}
    for task in tasks:
        waiters.setdefault(id(task._fut_waiter), []).append(task)
    waiters.pop(id(None), None)
    return {id(task): _view(task, task is running, waiters) for task in tasks}


def view_running(loop: asyncio.AbstractEventLoop) -> dict[int, TaskView]:
    """Return a view of the running task: only its name and its coroutine. Thread: any, also without the GIL."""
    task = asyncio.current_task(loop)
    if task is None:
        return {}
    coroutine = getattr(task.get_coro(), "__qualname__", "")
    return {id(task): TaskView(id(task), task.get_name(), coroutine, "running", (), "", ())}


def read_tasks(loop: Any, tasks: Callable[[Any], T], running: Callable[[Any], T], patience: float | None = None) -> T:
    """Return `tasks(loop)`. Without the GIL a running loop calls it; if it is blocked, return `running(loop)`.

    It counts as blocked after `patience` seconds, by default BLOCKED_AFTER. `running` may read only the running task,
    and of it what `view_running` does. Thread: any.
    """
    if has_gil() or not loop.is_running() or loop._thread_id == threading.get_ident():
        return tasks(loop)
    found: concurrent.futures.Future[T] = concurrent.futures.Future()

    def read() -> None:
        if found.set_running_or_notify_cancel():
            try:
                found.set_result(tasks(loop))
            except BaseException as exc:
                if isinstance(exc, Exception):
                    found.set_exception(exc)
                else:  # it ends the loop, not the asking thread
                    found.set_exception(RuntimeError("the loop was interrupted"))
                    raise

    try:
        loop.call_soon_threadsafe(read)
    except RuntimeError:  # it has been closed
        return tasks(loop)
    try:
        return found.result(BLOCKED_AFTER if patience is None else patience)
    except TimeoutError:
        if not found.cancel():
            return found.result()
        return running(loop) if loop.is_running() else tasks(loop)


def awaiting(views: dict[int, TaskView], task_id: int) -> list[TaskView]:
    """Return the tasks that await the task `task_id`, and those that await these: the nearest first."""
    found: dict[int, TaskView] = {}
    wanted = [task_id]
    while wanted:
        view = views.get(wanted.pop(0))
        for outer in view.awaited_by if view is not None else ():
            if outer not in found and outer != task_id and outer in views:
                found[outer] = views[outer]
                wanted.append(outer)
    return list(found.values())


def state_of(task: Any, is_running: bool) -> State:
    """Return the state of a task that is not done."""
    waiter = getattr(task, "_fut_waiter", None)
    return "running" if is_running else "ready" if waiter is None or waiter.done() else "waiting"


def coroutine_stack(coro: Any) -> tuple[Place, ...]:
    """Return the places of `coro` and of the coroutines that it awaits, outermost first.

    The last may be the first line of a function that a thread of anyio runs for it, which has no coroutine.
    """
    places: list[Place] = []
    innermost: FrameType | None = None
    while coro is not None and len(places) < DEEPEST:
        for kind, frame_name, inner_name in _ATTRIBUTES:
            if isinstance(coro, kind):
                frame = getattr(coro, frame_name)
                if frame is not None:
                    innermost = frame
                    places.append(place_of(frame.f_code, frame.f_lineno))
                coro = getattr(coro, inner_name)
                break
        else:
            coro = _wrapped(coro)
    if innermost is not None and places[-1].function.endswith(IN_THREAD):
        code = _code_of(innermost.f_locals.get("func"))
        places += [] if code is None else [place_of(code, code.co_firstlineno)]
    return tuple(places)


def _code_of(function: Any) -> CodeType | None:
    while isinstance(function, functools.partial):
        passed = [each for each in (*function.args, *function.keywords.values()) if isinstance(each, _CALLABLE)]
        # A function of a package that calls one of the program, as FastAPI's.
        function = passed[0] if passed and _is_installed(function.func) else function.func
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _is_installed(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    return isinstance(code, CodeType) and any(name in code.co_filename for name in INSTALLED)


def _wrapped(awaitable: Any) -> Any:
    """Return the coroutine or generator inside the object from `__await__`, `asend` or `anext`, which hides it."""
    if asyncio.isfuture(awaitable):
        return None
    return next((inner for inner in gc.get_referents(awaitable) if isinstance(inner, _SUSPENDABLE)), None)


def _tasks_of(loop: asyncio.AbstractEventLoop) -> list[Any]:
    # Tasks of other classes need not have the attributes that are read here.
    return [task for task in asyncio.all_tasks(loop) if hasattr(task, "_fut_waiter")]


def _view(task: Any, is_running: bool, waiters: dict[int, list[Any]]) -> TaskView:
    coro = task.get_coro()
    waiter = task._fut_waiter
    stack = coroutine_stack(coro)
    state = state_of(task, is_running)
    return TaskView(
        id=id(task),
        name=task.get_name(),
        coroutine=str(getattr(coro, "__qualname__", None) or type(coro).__qualname__),
        state=state,
        stack=stack,
        waits_for=_describe_wait(waiter, stack) if state == "waiting" else "",
        awaited_by=tuple(dict.fromkeys(id(outer) for outer in _awaiters(task, waiters, {id(task)}))),
    )


def _describe_wait(waiter: Any, stack: tuple[Place, ...]) -> str:
    if isinstance(waiter, asyncio.Task):
        return f"task {waiter.get_name()!r}"
    children = getattr(waiter, "_children", None)
    if children:
        return f"gather of {len(children)}"
    # The future itself is anonymous; the coroutine that made it has a name: `sleep`, `Queue.get`, `Event.wait`.
    return stack[-1].function if stack else type(waiter).__qualname__


def _awaiters(future: Any, waiters: dict[int, list[Any]], seen: set[int]) -> Iterator[Any]:
    """Yield the tasks that await `future`, directly or through futures in between."""
    yield from waiters.get(id(future), ())
    for callback, *_ in getattr(future, "_callbacks", None) or ():
        for outer in _linked(callback):
            if id(outer) in seen:
                continue
            seen.add(id(outer))
            if isinstance(outer, asyncio.Task):
                yield outer
            else:
                yield from _awaiters(outer, waiters, seen)


def _linked(callback: Any) -> Iterator[Any]:
    """Yield the futures and tasks that an inner future's callback acts upon."""
    if isinstance(callback, functools.partial):
        yield from filter(asyncio.isfuture, callback.args)
        callback = callback.func
    owner = getattr(callback, "__self__", None)
    parent = getattr(owner, "_parent_task", None)  # of a TaskGroup
    if parent is not None:
        yield parent
    for cell in getattr(callback, "__closure__", None) or ():
        try:
            content = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        if asyncio.isfuture(content):
            yield content
        elif type(content).__module__ == "anyio._backends._asyncio" and hasattr(content, "cancel_scope"):
            host = content.cancel_scope._host_task  # of anyio's TaskGroup, which waits for a future of its own
            if host is not None:
                yield host
