"""Subject: one inspected loop, and the answers to questions about it.

| question | answer                                                                                              |
|----------|-----------------------------------------------------------------------------------------------------|
| `ps`     | `tasks`, each with `id name coroutine state stack waits_for awaited_by`, and `age` in seconds or None |
| `stacks` | as `ps`, and `threads`, each with `name ident is_loop stack`                                        |
| `cancel` | takes `task`, an id; posts the cancellation to the loop, which carries it out when it gets there     |
| `watch`  | takes `parts`, what to measure until this connection ends, or asks for other parts                  |
| `sample` | the figures at this moment                                                                          |

All answers are made in the server's thread from what can be read of a loop from outside, whatever the loop is doing.
"""

import asyncio
import os
import platform
import sys
import threading
import time
from collections import Counter
from typing import Any, Final

from loopcore_plugins._tasktree import TaskView, view_tasks
from loopcore_plugins.inspect.creation_times import CreationTimes
from loopcore_plugins.inspect.observer import PARTS, Observer, name_of
from loopcore_plugins.inspect.protocol import VERSION, Message, ProtocolError
from loopcore_plugins.inspect.stalls import PACE, Stalls
from loopcore_plugins.watchdog.stacks import stack_of

MOST_TASKS: Final = 10_000
"""The most tasks in an answer; `left_out` says how many more there are."""


class Subject:
    """Answers for `loop`, the `number`th of this process, which runs in the thread that makes this."""

    def __init__(self, loop: Any, number: int, creation_times: CreationTimes | None) -> None:
        self._loop = loop
        self._number = number
        self._creation_times = creation_times
        self._thread_id = threading.get_ident()
        self._observer = Observer(loop)
        self._stalls = Stalls(loop, self._thread_id)
        self._watchers: dict[object, frozenset[str]] = {}
        self._since = time.time()
        self._asks = {
            "ps": self._ps,
            "stacks": self._stacks,
            "cancel": self._cancel,
            "sample": self._sample,
        }

    def moved(self) -> None:
        """Note that the loop runs (again), in this thread, which may be a new one. Thread: the loop's."""
        self._thread_id = threading.get_ident()
        self._stalls.follow(self._thread_id)

    def dismiss(self) -> None:
        """Stop all measurements. Thread: the loop's."""
        self._watchers.clear()
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
            self._post_wishes()

    def look(self) -> float | None:
        """Check for stalls while a client watches; return the seconds until the next check."""
        if not self._watchers:
            return None
        self._stalls.look()
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
                "is_loop": thread.ident == self._thread_id,
                "stack": [list(place) for place in stack_of(thread.ident)],
            }
            for thread in threading.enumerate()
            if thread.ident is not None and thread.ident != own
        ]
        return {"threads": sorted(threads, key=lambda each: not each["is_loop"]), **self._tasks()}

    def _tasks(self) -> Message:
        views = list(view_tasks(self._loop).values())
        shown = [self._describe(view) for view in views[:MOST_TASKS]]
        return {
            "running": self._loop.is_running(),
            "waiting": self._loop.is_waiting(),
            "tasks": shown,
            "left_out": len(views) - len(shown),
        }

    def _describe(self, view: TaskView) -> Message:
        age = None if self._creation_times is None else self._creation_times.age(view.id)
        return {**view._asdict(), "stack": [list(place) for place in view.stack], "age": age}

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
        self._post_wishes()
        return {"parts": sorted(wanted)}

    def _post_wishes(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._heed_wishes)
        except RuntimeError:  # closed; nothing is measured there any more
            pass

    def _heed_wishes(self) -> None:
        """Thread: the loop's."""
        self._observer.want(frozenset().union(*self._watchers.copy().values()))

    def _sample(self, question: Message) -> Message:
        names = Counter(name_of(task.get_coro()) for task in asyncio.all_tasks(self._loop))
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
            "stalls": self._stalls.view(),
            **self._observer.view(),
        }


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


def _open_sockets(loop: Any) -> int:
    """Return the number of open socket transports: those that the loop lists, as asyncio's loops do."""
    return sum(not transport.is_closing() for transport in loop._transports.values())
