"""Waits: what each suspended task awaits, which tasks could end that wait, and cycles among them.

asyncio has no such record, so it is read from coroutines. The chain of `cr_await` leads from a task's coroutine to the
innermost one. There the frame of `Queue.get` has the queue as its `self`, that of `asyncio.wait` has its futures, and
so on. The name of an object is looked up in the frame of the program that uses it.

A lock of asyncio has no owner. But a frame inside `async with lock` has the lock's `__aexit__` on its stack of values,
and the garbage collector can see that stack. So the task that entered the block is known; one that called `acquire`
is not.

Which task will put into a queue, set an event or resolve a future cannot be known in advance. The tasks whose frames
can reach the object are named instead, as those that use it: a hint, which `Wait.is_certain` keeps apart.

On CPython 3.11 and 3.12 reading a frame's locals copies them, and the copy lives as long as the frame: call this only
for a report. Thread: the loop's own.
"""

import asyncio
import gc
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, _AsyncGeneratorContextManager, suppress
from itertools import islice
from types import FrameType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

from loopcore.sync import Mutex
from loopcore.text import printable

Future: TypeAlias = "asyncio.Future[Any]"
Task: TypeAlias = "asyncio.Task[Any]"

_DEEPEST: Final = 100  # coroutines, one in the next: more is recursion
_MOST: Final = 10_000  # objects that are looked at for a name
_OPAQUE: Final = (ModuleType, type, FunctionType, MethodType, str, bytes, asyncio.AbstractEventLoop)
_LIBRARIES: Final = frozenset({"asyncio", "contextlib", "loopcore", "loopcore_backends"})

_KINDS: Final[tuple[tuple[type, Mapping[str, str]], ...]] = (
    (
        asyncio.Queue,
        {"get": "an item in the queue", "put": "space in the queue", "join": "the last `task_done` of the queue"},
    ),
    (asyncio.Barrier, {"": "the barrier"}),
    (asyncio.Semaphore, {"": "the semaphore"}),
    (asyncio.Event, {"": "the event"}),
    (asyncio.Condition, {"": "a notification of the condition"}),
    (asyncio.Lock, {"": "the lock"}),
    (Mutex, {"": "the mutex"}),
    (asyncio.TaskGroup, {"": "the task group"}),
    (asyncio.StreamReader, {"": "data on the stream"}),
    (asyncio.StreamWriter, {"": "space in the buffer of the stream"}),
)

_HELD: Final = (asyncio.Semaphore, asyncio.Lock, Mutex)


class Wait(NamedTuple):
    """A task, what it waits for, and which tasks could end the wait."""

    task: Task
    what: str
    """For example "the lock `l`"."""
    place: str
    """The file and line of the program that waits: "chat.py:14"."""
    others: tuple[Task, ...]
    """The tasks that it waits for."""
    relation: str
    """What the others are to the wait: "holds", "uses", "is not done"; empty if there can be none, as of a timer."""

    @property
    def is_certain(self) -> bool:
        """Whether only `others` can end the wait; False if they are those that can reach what it waits for."""
        return self.relation != "uses"

    def __str__(self) -> str:
        """Return for example "A waits for the lock `l` (chat.py:14), which B holds"."""
        begin = f"{_name(self.task)} waits for {self.what} ({self.place})"
        names = _listing([_name(each) for each in self.others])
        several = len(self.others) > 1
        match self.relation:
            case "holds":
                end = f", which {names} {'hold' if several else 'holds'}" if names else ", whose holder is not known"
            case "uses":
                end = (
                    f", which {names} {'use' if several else 'uses'}"
                    if names
                    else ", which no other task is seen to use"
                )
            case "is not done" if names and self.what != _task_words(self.others[0]):
                end = f": {names} {'are' if several else 'is'} not done"
            case _:
                end = ""
        return begin + end


class _Subject(NamedTuple):
    """What a task waits for: an object, or futures."""

    words: str
    subject: object
    futures: tuple[Future, ...]
    relation: str
    name: str
    place: str


class _Chain(NamedTuple):
    """The coroutines of a task with their frames, outermost first."""

    coroutines: list[object]
    frames: list[FrameType]


def find_waits(tasks: Iterable[Task]) -> list[Wait]:
    """Return a wait for each of `tasks` that is suspended, by the names of the tasks; Task-2 precedes Task-10.

    Tasks that are done or about to run have none, but can be among the others of one.
    """
    chains = {task: _chain(task.get_coro()) for task in sorted(tasks, key=_order) if not task.done()}
    subjects = {task: subject for task, chain in chains.items() if (subject := _subject_of(task, chain)) is not None}
    return [
        Wait(
            task,
            f"{subject.words} `{subject.name}`" if subject.name else subject.words,
            subject.place,
            tuple(_others(task, subject, chains, subjects)),
            subject.relation,
        )
        for task, subject in subjects.items()
    ]


def cycle_of(waits: Iterable[Wait]) -> list[Wait]:
    """Return the shortest cycle: each wait's task is one of the others of the wait before it. Empty if there is none.

    A cycle of certain waits is preferred to a shorter one of hints.
    """
    waiting = {wait.task: wait for wait in waits}
    for is_enough in (lambda wait: wait.is_certain, lambda wait: True):
        edges = {
            task: [each for each in wait.others if each in waiting] for task, wait in waiting.items() if is_enough(wait)
        }
        cycles = [path for task in edges if (path := _way_back(task, edges))]
        if cycles:
            return [waiting[task] for task in min(cycles, key=len)]
    return []


def explain_waits(tasks: Iterable[Task]) -> str:
    """Return the cycle among `tasks` in a sentence, then a line for each other task that waits."""
    waits = find_waits(tasks)
    cycle = cycle_of(waits)
    lines = ["; ".join(map(str, cycle))] if cycle else []
    return "\n".join(lines + [str(wait) for wait in waits if wait not in cycle])


def _way_back(start: Task, edges: Mapping[Task, Sequence[Task]]) -> list[Task]:
    """Return the shortest path from `start` to a task that waits for it, or an empty list."""
    paths: dict[Task, list[Task]] = {start: [start]}
    for task in (queue := [start]):
        for after in edges.get(task, ()):
            if after is start:
                return paths[task]
            if after not in paths:
                paths[after] = [*paths[task], after]
                queue.append(after)
    return []


def _chain(coroutine: object) -> _Chain:
    chain = _Chain([], [])
    while coroutine is not None and len(chain.frames) < _DEEPEST and not asyncio.isfuture(coroutine):
        for frame_name, inner_name in (
            ("cr_frame", "cr_await"),
            ("gi_frame", "gi_yieldfrom"),
            ("ag_frame", "ag_await"),
        ):
            if hasattr(coroutine, inner_name):
                frame = getattr(coroutine, frame_name)
                if frame is not None:
                    chain.coroutines.append(coroutine)
                    chain.frames.append(frame)
                coroutine = getattr(coroutine, inner_name)
                break
        else:  # the object from `__await__`, `asend` or `anext` hides the coroutine
            inside = gc.get_referents(coroutine)
            coroutine = next((each for each in inside if hasattr(each, "cr_await") or hasattr(each, "ag_await")), None)
    return chain


def _subject_of(task: Task, chain: _Chain) -> _Subject | None:
    waiter = getattr(task, "_fut_waiter", None)
    if waiter is None or waiter.done():
        return None
    own = max((index for index, frame in enumerate(chain.frames) if not is_library(frame)), default=-1)
    user = chain.frames[max(own, 0)] if chain.frames else None
    place = f"{os.path.basename(user.f_code.co_filename)}:{user.f_lineno}" if user else "unknown place"
    program = user if own >= 0 else None  # a library's names say nothing
    for frame in chain.frames[own + 1 :]:
        found = _of_frame(frame, chain.frames)
        if found is not None:
            words, subject, futures, relation = found
            return _Subject(words, subject, futures, relation, _name_in(program, subject), place)
    behind = tuple(_futures_behind(waiter))
    if behind or hasattr(waiter, "_children"):
        of_several = "a gather" if hasattr(waiter, "_children") else "a shield"
        words = _task_words(waiter) if hasattr(waiter, "get_coro") else of_several
        return _Subject(words, None, behind, "is not done", "", place)
    return _Subject("the future", waiter, (), "uses", _name_in(program, waiter), place)


def _of_frame(frame: FrameType, frames: Sequence[FrameType]) -> tuple[str, object, tuple[Future, ...], str] | None:
    """Return words, object, futures and relation if `frame` is of a function that is known to wait."""
    names, function = frame.f_locals, frame.f_code.co_name
    subject = names.get("self")
    if isinstance(subject, asyncio.Condition) and frames[-1].f_locals.get("self") is not subject:
        return None  # it is about to take its lock: another frame says so
    for kind, words in _KINDS:
        if isinstance(subject, kind):
            futures = tuple(getattr(subject, "_tasks", ())) if isinstance(subject, asyncio.TaskGroup) else ()
            relation = "is not done" if futures else "holds" if isinstance(subject, _HELD) else "uses"
            if isinstance(subject, (asyncio.StreamReader, asyncio.StreamWriter)):
                relation = ""  # the peer could end it
            return words.get(function) or words.get("") or f"`{function}` of the queue", subject, futures, relation
    if function.startswith("sock_") and "sock" in names:
        return f"`{function}` on the socket", names["sock"], (), ""
    if function in ("wait", "_wait") and "fs" in names:
        return "`asyncio.wait`", None, tuple(names["fs"]), "is not done"
    if function == "wait_for" and asyncio.isfuture(names.get("fut")):
        return "`asyncio.wait_for`", None, (names["fut"],), "is not done"
    if function == "sleep":
        return "a timer", None, (), ""
    return None


def _futures_behind(future: Future) -> Iterator[Any]:
    """Yield the tasks that complete `future`: itself, those of a gather, that of a shield."""
    if hasattr(future, "get_coro"):
        yield future
    for child in getattr(future, "_children", None) or ():
        yield from _futures_behind(child)
    for callback, *_ in getattr(future, "_callbacks", None) or ():
        if isinstance(callback, FunctionType) and callback.__name__ == "_outer_done_callback":  # of shield
            names = dict(zip(callback.__code__.co_freevars, callback.__closure__ or (), strict=True))
            if "inner" in names:
                yield from _futures_behind(names["inner"].cell_contents)


def _others(
    task: Task, subject: _Subject, chains: Mapping[Task, _Chain], subjects: Mapping[Task, _Subject]
) -> Iterator[Task]:
    if subject.relation == "is not done":
        futures = [inner for each in subject.futures for inner in _futures_behind(each)]
        yield from sorted({each for each in futures if not each.done()}, key=_order)
    elif subject.relation == "holds":
        yield from (each for each, chain in chains.items() if any(_is_same(it, subject.subject) for it in _held(chain)))
    elif subject.relation == "uses":
        for each, chain in chains.items():
            theirs = subjects.get(each)
            waits_alike = theirs and theirs.subject is subject.subject and theirs.words == subject.words
            if not waits_alike and any(_name_in(frame, subject.subject) for frame in chain.frames):
                yield each


def _held(chain: _Chain) -> Iterator[object]:
    """Yield the context managers whose `async with` blocks the coroutines of `chain` are in."""
    frames: list[FrameType | None] = [*chain.frames[1:], None]
    waiting = [
        frame.f_locals["self"] for frame in chain.frames if frame.f_code.co_name == "wait" and "self" in frame.f_locals
    ]
    for coroutine, inner in zip(chain.coroutines, frames, strict=True):
        managers = list(_entered(coroutine))
        if managers and inner is not None and inner.f_code.co_name == "__aenter__":
            managers.pop()  # `__aexit__` is put on the stack before `__aenter__` is called
        for manager in (each for outer in managers for each in _with_inner(outer)):
            if not any(_is_same(each, manager) for each in waiting):
                yield manager  # `Condition.wait` releases the lock


def _entered(suspended: object) -> Iterator[object]:
    """Yield the managers of the `async with` blocks in which `suspended`, a coroutine or generator, is."""
    referents = gc.get_referents(suspended)
    for index, each in enumerate(referents):
        if type(each) is MethodType and each.__name__ == "__aexit__":
            yield each.__self__
        elif type(each) is FunctionType and each.__name__ == "__aexit__":
            yield from referents[index + 1 : index + 2]  # CPython 3.14 and later: the function, then its `self`


def _with_inner(manager: object) -> Iterator[object]:
    """Yield `manager` and those that it has entered itself."""
    yield manager
    if isinstance(manager, AsyncExitStack):
        yield from (getattr(exit_, "__self__", None) for _, exit_ in getattr(manager, "_exit_callbacks", ()))
    elif isinstance(manager, _AsyncGeneratorContextManager):
        yield from (each for inner in _entered(manager.gen) for each in _with_inner(inner))


def _is_same(found: object, wanted: object) -> bool:
    """Tell whether they are one object, or `found` is a condition whose lock is `wanted`."""
    # By type: `isinstance` would run code of a proxy.
    return found is wanted or (issubclass(type(found), asyncio.Condition) and vars(found).get("_lock") is wanted)


def _name_in(frame: FrameType | None, wanted: object) -> str:
    """Return how code in `frame` reaches `wanted`: a name, with at most two attributes or items; empty if not."""
    if frame is None or wanted is None:
        return ""
    named = {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}
    level = [*frame.f_locals.items(), *named.items()]
    for _ in range(3):
        for path, value in level:
            if _is_same(value, wanted):
                return path
        level = list(islice((inner for path, value in level for inner in _inside(path, value)), _MOST))
    return ""


def _inside(path: str, value: Any) -> Iterator[tuple[str, object]]:
    """Yield the items of a container or the attributes of an object, without running code of the program."""
    kind = type(value)
    if issubclass(kind, _OPAQUE) or hasattr(kind, "_asyncio_future_blocking"):
        return
    if issubclass(kind, dict):
        for key, each in list(dict.items(value)):
            yield f"{path}[{key!r}]" if type(key) in (str, int) else f"{path}[...]", each
    elif issubclass(kind, (list, tuple)):
        yield from ((f"{path}[{index}]", each) for index, each in enumerate(kind.__iter__(value)))
    else:
        for name, descriptor in [each for base in kind.__mro__ for each in base.__dict__.items()]:
            if type(descriptor) is MemberDescriptorType:  # a slot
                with suppress(AttributeError):  # not set
                    yield f"{path}.{name}", descriptor.__get__(value)
            elif type(descriptor) is GetSetDescriptorType and name == "__dict__":
                yield from ((f"{path}.{name}", each) for name, each in list(descriptor.__get__(value).items()))


def is_library(frame: FrameType) -> bool:
    """Return whether code of asyncio, contextlib or loopcore runs in `frame`, which says nothing about the program."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _LIBRARIES


def _name(task: Task) -> str:
    return printable(task.get_name())


def _task_words(task: Task) -> str:
    return f"the task {_name(task)}"


def _order(task: Task) -> list[tuple[int, str]]:
    return [(int(part or 0), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", task.get_name())]


def _listing(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
