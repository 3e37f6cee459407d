"""A host: the group's side of one member, whatever it runs in.

The supervisor's loop owns hosts. What happens in the member's thread or process arrives by `call_soon_threadsafe`.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from loopcore.group.part import Part

if TYPE_CHECKING:
    from loopcore.group.supervisor import Supervisor


class Outcome(NamedTuple):
    """How a member ended: `exit_code` is 0 if `main` returned; `error` is what it raised, if anything."""

    exit_code: int
    error: BaseException | None


class Host:
    """What threads and processes have in common. Thread: the supervisor's, but for `order`, `run` and the reports."""

    def __init__(self, part: Part, supervisor: "Supervisor") -> None:
        self.part = part
        self.supervisor = supervisor
        self.began = asyncio.Event()
        self.ready = asyncio.Event()
        self.ended = asyncio.Event()
        self.outcome = Outcome(0, None)
        self.is_draining = False
        self.is_killed = False
        self.is_retired = False  # a successor starts or has started
        self.made_at: float = supervisor.loop.time()
        self.pid = 0
        self.thread_id = 0

    @property
    def index(self) -> int:
        """The member's place."""
        return self.part.index

    @property
    def state(self) -> str:
        """As in MemberStatus."""
        if self.ended.is_set():
            return "ended"
        if self.is_draining:
            return "draining"
        return "running" if self.ready.is_set() else "starting"

    def start(self) -> None:
        """Start the thread or the process."""
        raise NotImplementedError

    def order(self, name: str, *arguments: Any) -> "Future[Any]":
        """Call a method of the member's Life on its loop."""
        raise NotImplementedError

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> "Future[Any]":
        """Call a program's function on its loop."""
        raise NotImplementedError

    def kill(self) -> bool:
        """End the member whatever it does; return False if that is impossible."""
        raise NotImplementedError

    # Reports, from any thread

    def report_began(self, pid: int, thread_id: int) -> None:
        """Note that the loop runs."""
        self.supervisor.post(self._note_began, pid, thread_id)

    def report_ready(self) -> None:
        """Note that `main` is ready."""
        self.supervisor.post(self.ready.set)

    def report_end(self, outcome: Outcome) -> None:
        """Note that the thread or the process has ended."""
        self.supervisor.post(self._note_end, outcome)

    def _note_began(self, pid: int, thread_id: int) -> None:
        self.pid, self.thread_id = pid, thread_id
        self.began.set()

    def _note_end(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.began.set()
        self.ended.set()


def code_of(error: BaseException) -> int:
    """Return the exit code of a program that raises `error`."""
    if not isinstance(error, SystemExit):
        return 1
    if error.code is None:
        return 0
    return error.code if isinstance(error.code, int) else 1
