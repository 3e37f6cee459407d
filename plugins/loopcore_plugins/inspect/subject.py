"""Subject: one inspected loop, and the answers to questions about it.

| question | answer                                                                                              |
|----------|-----------------------------------------------------------------------------------------------------|
| `ps`     | `tasks`, each with `id name coroutine state stack waits_for awaited_by`, and `age` in seconds or None |
| `stacks` | as `ps`, and `threads`, each with `name ident is_loop stack`                                        |
| `sites`  | the tasks grouped by await site, each with `place state waits_for count oldest at_least example` |
| `task`   | takes `task`, an id; one task as `ps` has it, its awaiters, and its `history` if there is a recorder |
| `cancel` | takes `task`, an id; posts the cancellation to the loop, which carries it out when it gets there     |
| `watch`  | takes `parts`, what to measure until this connection ends, or asks for other parts                  |
| `sample` | the figures at this moment                                                                          |

All answers are made in the server's thread from attributes that other threads may read, whatever the loop is doing.
Without the GIL the loop changes its tasks meanwhile, so it looks at them itself; while it is blocked, the answers have
only its running task.
"""

import asyncio
import os
import platform
import re
import sys
import threading
import time
from collections import Counter
from typing import Any, Final

from loopcore_plugins._tasktree import Place, TaskView, awaiting, read_tasks, view_running, view_tasks
from loopcore_plugins.inspect.creation_times import CreationTimes
from loopcore_plugins.inspect.loop_thread import LoopThread
from loopcore_plugins.inspect.observer import PARTS, Observer, name_of
from loopcore_plugins.inspect.protocol import VERSION, Message, ProtocolError
from loopcore_plugins.inspect.stalls import Stalls
from loopcore_plugins.watchdog.stacks import innermost_of_program, stack_of

PACE: Final = 0.1
"""Seconds between two probes of the GIL, while a client watches."""
MOST_TASKS: Final = 10_000
"""The most tasks in an answer; `left_out` says how many more there are."""
MOST_SITES: Final = 1000
"""The most sites in an answer, those with most tasks; `left_out` says how many more there are."""
MOST_NAMED: Final = 20
"""The most awaiters of a task that are named."""
MOST_EVENTS: Final = 200
"""The most events of a task's history."""


class Subject:
    """Answers for `loop`, the `number`th of this process, which runs in the thread that makes this."""

    def __init__(self, loop: Any, number: int, creation_times: CreationTimes | None) -> None:
        self._loop = loop
        self._number = number
        self._creation_times = creation_times
        self._thread = LoopThread()
        self._observer = Observer(loop)
        self.stalls = Stalls(loop)
        self._watchers: dict[object, frozenset[str]] = {}
        self._since = time.time()
        self._asks = {
            "ps": self._ps,
            "stacks": self._stacks,
            "sites": self._sites,
            "task": self._task,
            "cancel": self._cancel,
            "sample": self._sample,
        }

    def moved(self) -> None:
        """Note that the loop runs (again), in this thread, which may be a new one. Thread: the loop's."""
        self._thread.follow()
        if self._watchers:
            self.stalls.watch(self._thread.ident, self._thread.clock)

    def stopped(self) -> None:
        """Note that the loop no longer runs. Thread: the loop's."""
        self.stalls.unwatch()

    def abandon(self) -> None:
        """In a forked child: stop what was measured for the parent's clients. Thread: the loop's."""
        self.stalls = Stalls(self._loop)  # of the other, a thread of the parent may have the lock
        self.dismiss()

    def dismiss(self) -> None:
        """Stop all measurements. Thread: the loop's."""
        self._watchers.clear()
        self.stalls.unwatch()
        self._observer.want(frozenset())

    # What the server asks

    def greeting(self) -> Message:
        """Return the identity of the process and the loop."""
        return {
            "loopcore-inspect": VERSION,
            "pid": os.getpid(),
            "loop": self._number,
            "program": _program(),
            "python": f"{platform.python_implementation()} {platform.python_version()}",
            "backend": self._loop.backend.name,
            "since": self._since,
            "parts": sorted(PARTS),
        }

    def answer(self, visitor: object, question: Message) -> Message:
        """Answer `question`. Raises ProtocolError if it is unknown."""
        ask = question.get("ask")
        if ask == "watch":
            return self._watch(visitor, question.get("parts"))
        answer = self._asks.get(ask) if isinstance(ask, str) else None
        if answer is None:
            raise ProtocolError(f"there is no question {ask!r}; the questions are watch, {', '.join(self._asks)}")
        return answer(question)

    def forget(self, visitor: object) -> None:
        """Stop measuring for `visitor`."""
        if self._watchers.pop(visitor, None) is not None:
            self._heed_watchers()

    def look(self) -> float | None:
        """Probe the GIL while a client watches; return the seconds until the next probe."""
        if not self._watchers:
            return None
        self._thread.probe()
        return PACE

    # The answers

    def _ps(self, question: Message) -> Message:
        return self._tasks()

    def _stacks(self, question: Message) -> Message:
        own = threading.get_ident()
        threads = [
            {
                "name": thread.name,
                "ident": thread.ident,
                "is_loop": thread.ident == self._thread.ident,
                "stack": [list(place) for place in stack_of(thread.ident)],
            }
            for thread in threading.enumerate()
            if thread.ident is not None and thread.ident != own
        ]
        return {"threads": sorted(threads, key=lambda each: not each["is_loop"]), **self._tasks()}

    def _tasks(self) -> Message:
        found, unread = self._look()
        views = list(found.values())
        shown = [self._describe(view) for view in views[:MOST_TASKS]]
        return {
            "running": self._loop.is_running(),
            "waiting": self._loop.is_waiting(),
            "tasks": shown,
            "left_out": len(views) - len(shown) + unread,
        }

    def _look(self) -> tuple[dict[int, TaskView], int]:
        """Return views of the tasks, and how many could not be read: without the GIL, the others of a blocked loop."""
        return read_tasks(self._loop, _view_all, _view_one)

    def _describe(self, view: TaskView) -> Message:
        times = self._ages()
        age = None if times is None else times.age(view.id)
        return {**view._asdict(), "stack": [list(place) for place in view.stack], "age": age}

    def _ages(self) -> CreationTimes | None:
        return self._creation_times or self._observer.creation_times

    def _sites(self, question: Message) -> Message:
        groups: dict[tuple[Place | None, str, str], list[TaskView]] = {}
        for view in self._look()[0].values():
            place = innermost_of_program(view.stack)
            groups.setdefault((place, view.state, _kind_of_wait(view.waits_for)), []).append(view)
        largest = sorted(groups.items(), key=lambda group: -len(group[1]))
        sites = [self._describe_site(*key, views) for key, views in largest[:MOST_SITES]]
        return {"sites": sites, "left_out": len(groups) - len(sites)}

    def _describe_site(self, place: Place | None, state: str, waits_for: str, views: list[TaskView]) -> Message:
        times = self._ages()
        oldest, oldest_age, at_least = views[0], None, False
        if times is not None:
            bound = time.monotonic() - times.since
            for view in views:
                age = times.age(view.id)
                if age is None:  # older than all that are known
                    oldest, oldest_age, at_least = view, bound, True
                    break
                if oldest_age is None or age > oldest_age:
                    oldest, oldest_age = view, age
        return {
            "place": None if place is None else list(place),
            "state": state,
            "waits_for": waits_for,
            "count": len(views),
            "oldest": oldest_age,
            "at_least": at_least,
            "example": self._describe(oldest),
        }

    def _task(self, question: Message) -> Message:
        wanted = question.get("task")
        views, unread = self._look()
        view = views.get(wanted) if isinstance(wanted, int) else None
        if view is None:
            blocked = "; the loop is blocked, and without the GIL only its running task can be read" if unread else ""
            raise ProtocolError(f"there is no task {wanted!r}{blocked}")
        return {
            **self._describe(view),
            "awaiters": [each.name for each in awaiting(views, view.id)[:MOST_NAMED]],
            "history": self._history(view.id),
            "monotonic_ns": time.monotonic_ns(),
        }

    def _history(self, task_id: int) -> list[Message] | None:
        """Return what the plugin `recorder` knows of a task, the newest last; None without the plugin."""
        # By what it can do, not by its name: a program may register an instance under any.
        known = (getattr(plugin, "history", None) for _, plugin in self._loop.probes.plugins())
        history: Any = next((each for each in known if callable(each)), None)
        task = next((each for each in asyncio.all_tasks(self._loop) if id(each) == task_id), None)
        if history is None or task is None:
            return None
        try:
            return list(history(task, MOST_EVENTS))
        except Exception as exc:
            raise ProtocolError(f"the recorder has failed: {exc!r}") from exc

    def _cancel(self, question: Message) -> Message:
        wanted = question.get("task")
        for task in asyncio.all_tasks(self._loop):
            if id(task) == wanted:
                try:
                    # The callback keeps the task alive until then, so that its id is not reused.
                    self._loop.call_soon_threadsafe(task.cancel, "cancelled by loopcore inspect")
                except RuntimeError as exc:
                    raise ProtocolError(f"the loop is closed: {exc}") from None
                return {"task": wanted, "name": task.get_name(), "waiting": self._loop.is_waiting()}
        raise ProtocolError(f"there is no task {wanted!r}")

    def _watch(self, visitor: object, parts: Any) -> Message:
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise ProtocolError("`parts` must be a list of names")
        wanted = frozenset(parts)
        if not wanted <= PARTS:
            raise ProtocolError(f"there are no parts {sorted(wanted - PARTS)}; the parts are {sorted(PARTS)}")
        if wanted:
            self._watchers[visitor] = wanted
        else:
            self._watchers.pop(visitor, None)
        self._heed_watchers()
        return {"parts": sorted(wanted)}

    def _heed_watchers(self) -> None:
        if not self._watchers:
            self.stalls.unwatch()
        while self._watchers and self._loop.is_running():
            self.stalls.watch(self._thread.ident, self._thread.clock)
            if self._loop.is_running():
                break
            self.stalls.unwatch()  # that run has ended; perhaps the next has begun
        try:
            self._loop.call_soon_threadsafe(self._measure)
        except RuntimeError:  # closed; nothing is measured there any more
            pass

    def _measure(self) -> None:
        """Thread: the loop's."""
        self._observer.want(frozenset().union(*self._watchers.copy().values()))

    def _sample(self, question: Message) -> Message:
        names = read_tasks(self._loop, _names_of_tasks, _name_of_running)
        return {
            "now": time.time(),
            "monotonic_ns": time.monotonic_ns(),
            "cpu_seconds": time.process_time(),
            "threads": threading.active_count(),
            "running": self._loop.is_running(),
            "waiting": self._loop.is_waiting(),
            "counters": self._loop.counters()._asdict(),
            "tasks": dict(names.most_common(MOST_TASKS)),
            "sockets": _open_sockets(self._loop),
            "thread": self._thread.view(),
            "stalls": self.stalls.view(),
            **self._observer.view(),
        }


def _view_all(loop: Any) -> tuple[dict[int, TaskView], int]:
    return view_tasks(loop), 0


def _view_one(loop: Any) -> tuple[dict[int, TaskView], int]:
    views = view_running(loop)
    return views, len(asyncio.all_tasks(loop)) - len(views)


def _names_of_tasks(loop: Any) -> Counter[str]:
    return Counter(name_of(task.get_coro()) for task in asyncio.all_tasks(loop))


def _name_of_running(loop: Any) -> Counter[str]:
    views, unread = _view_one(loop)
    return Counter(view.coroutine for view in views.values()) + Counter({"(not read)": unread})


def _program() -> str:
    """Return the program and its arguments, as they follow `python` on a command line."""
    if sys.argv[0:1] in ([], ["-c"]):
        return "python -c"
    first, *arguments = sys.argv
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    # `python -m MODULE` puts the file of the module in sys.argv; its spec has the name.
    if spec is not None and spec.origin == first and spec.name != "__main__":
        first = f"-m {spec.name.removesuffix('.__main__')}"
    return " ".join([first, *arguments])


def _kind_of_wait(waits_for: str) -> str:
    """Return what a task waits for, without the name of the other task or the number of a gather."""
    return re.sub(r"^(task) '.*|^(gather) of \d+$", r"\1\2", waits_for, flags=re.DOTALL)


def _open_sockets(loop: Any) -> int:
    """Return the number of open socket transports: those that the loop lists, as asyncio's loops do."""
    return sum(not transport.is_closing() for transport in loop._transports.values())
