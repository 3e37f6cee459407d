"""Members as threads of this process: `call_soon_threadsafe` is the only way between loops.

The threads are daemons. Python cannot end a thread, and one whose loop is blocked must not keep the process: it is
reported and left behind. `main` runs in an empty context in every member, as it does in a new process.
"""

import concurrent.futures.thread  # noqa: F401  # now: it cannot be imported while the program exits
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import Context
from typing import TYPE_CHECKING, Any

from loopcore.group.host import Host, Outcome, code_of
from loopcore.group.life import Life
from loopcore.group.load import LoadTable
from loopcore.group.part import Listening, ListenRequest, Part
from loopcore.group.post import ThreadInbox, ThreadPost

if TYPE_CHECKING:
    from loopcore.group.supervisor import Supervisor


class ThreadHost(Host):
    """A member in a thread. `inboxes` and `table` are shared by the group."""

    def __init__(
        self, part: Part, supervisor: "Supervisor", inboxes: list[ThreadInbox | None], table: LoadTable
    ) -> None:
        super().__init__(part, supervisor)
        self._life = Life(part, self, ThreadPost(inboxes, part.index), table)
        self._thread = threading.Thread(target=self._run, name=f"loopcore_member_{part.index}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def _run(self) -> None:
        outcome = Outcome(0, None)
        try:
            Context().run(self._life.run)
        except BaseException as error:
            outcome = Outcome(code_of(error), error)
        self.report_end(outcome)

    def order(self, name: str, *arguments: Any) -> "Future[Any]":
        """Call a method of Life on the loop."""
        return self.run(getattr(self._life, name), arguments)

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> "Future[Any]":
        """Call a function on the loop."""
        return self._life.calls.submit(function, arguments)

    def kill(self) -> bool:
        """Return False: Python has no way to end a thread. One that has not come to its `main` will not call it."""
        self._life.is_given_up = True
        self.order("cut")  # an earlier order is lost if the member took no calls yet
        return False

    # Link

    def listen(self, request: ListenRequest) -> "Future[Listening]":
        """Ask the supervisor for sockets."""
        return self.supervisor.listen(self, request)

    def release(self, number: int) -> None:
        """Give sockets up."""
        self.supervisor.release(self, number)

    def run_on(self, index: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> "Future[Any]":
        """Run a function on another member."""
        return self.supervisor.run_on(index, function, arguments)
