"""Members as processes, started with multiprocessing's "spawn": a new interpreter that imports the program.

Not "fork": the group has threads, and so has nearly every program; a forked child would inherit locks that these hold.
Not "forkserver": its server would have to outlive the group, and a member starts once. The price is that `main` has
to be importable, and that a script needs `if __name__ == "__main__":`.

Signals are the group's business: a member process ignores SIGINT, which a terminal sends to all of them, and on SIGTERM
asks the group to replace it. If the group's process dies, its members drain, with the group's timeout, and end; a
thread watches over that, so a blocked loop ends, too.
"""

import mmap
import multiprocessing
import multiprocessing.util  # now: its exit handler, which waits for members, then runs after the group's
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from multiprocessing import reduction
from typing import IO, TYPE_CHECKING, Any, Final

from loopcore.errors import UsageError
from loopcore.group.calls import not_running
from loopcore.group.errors import GroupError
from loopcore.group.host import Host, Outcome, code_of
from loopcore.group.life import Life
from loopcore.group.load import LoadTable, cells_of
from loopcore.group.part import Listening, ListenRequest, Part
from loopcore.group.post import SocketPost, socket_pairs
from loopcore.group.rpc import Answer, Peer, portable

if TYPE_CHECKING:
    from loopcore.group.supervisor import Supervisor

GRACE: Final = 5.0
"""Seconds that a cancelled `main` has to return, before its process is killed or its thread reported."""

UNKNOWN_CODE: Final = 255
"""The exit code of a process whose code is lost, as asyncio has it."""

_CELL: Final = 8
"""Bytes of a cell: a C double."""


class Shared:
    """What the processes of a group share: the table's memory, and a way to each place."""

    def __init__(self, count: int) -> None:
        self.file = memory_file()
        self.pairs = socket_pairs(count)
        size = cells_of(count) * _CELL
        self.file.truncate(size)
        self._memory, self._cells = map_cells(self.file.fileno(), size)
        self.table = LoadTable(self._cells, count)

    def close(self) -> None:
        """Close everything. Connections that are still on their way are closed by the system."""
        self._cells.release()
        self._memory.close()
        self.file.close()
        for pair in self.pairs:
            for sock in pair:
                sock.close()


def memory_file() -> IO[bytes]:
    """Return an unnamed file that processes can map; in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("loopcore_group"), "w+b")
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise GroupError(
            f"member processes share a file in the temporary directory, which cannot be made ({error}); set TMPDIR to "
            'a directory that can be written, or use kind="threads"'
        ) from error


def map_cells(fd: int, size: int) -> tuple[mmap.mmap, "memoryview[float]"]:
    """Map the table's memory."""
    memory = mmap.mmap(fd, size)
    return memory, memoryview(memory).cast("d")


def check_picklable(part: Part) -> None:
    """Raise UsageError if a process could not get `part`."""
    try:
        reduction.ForkingPickler.dumps(part)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"member processes cannot get main or loop_factory ({error}); define them at the top level of a module, or "
            'use kind="threads"'
        ) from error


def block_signals() -> None:
    """Leave signals to the main thread. Processes that are started in this thread begin with the same mask."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))


class ProcessHost(Host):
    """A member in a process."""

    def __init__(self, part: Part, supervisor: "Supervisor", shared: Shared) -> None:
        super().__init__(part, supervisor)
        self._shared = shared
        self._said = Outcome(UNKNOWN_CODE, None)  # until the member says how it ends
        self._peer: Peer | None = None
        self._process: multiprocessing.process.BaseProcess

    def start(self) -> None:
        """Start the process, and the threads that read what it says and wait for its end."""
        from multiprocessing import resource_tracker  # not on Windows

        ours, theirs = socket.socketpair()
        receiver, senders = self._shared.pairs[self.index][0], [pair[1] for pair in self._shared.pairs]
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_member,
            args=(self.part, theirs, receiver, senders, DupFdOnStart(self._shared.file.fileno())),
            name=f"loopcore member {self.index}",
        )
        try:
            resource_tracker.ensure_running()  # first: starting it unblocks the signals in this thread
            block_signals()
            self._process.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._peer = Peer(ours, self._serve)
        reader = threading.Thread(target=self._peer.run, name=f"loopcore_reader_{self.index}", daemon=True)
        reader.start()
        threading.Thread(
            target=self._wait, args=(self._peer, reader), name=f"loopcore_waiter_{self.index}", daemon=True
        ).start()

    def _wait(self, peer: Peer, reader: threading.Thread) -> None:
        self._process.join()
        # Its last messages are read first. A child process of the member may hold a copy of the socket, which keeps it
        # open.
        peer.shut()
        reader.join()
        peer.close()
        code = self._process.exitcode
        if code is None:  # other code took it: a waitpid(-1) in the program, or SIGCHLD is ignored
            code = self._said.exit_code
            self._process._popen.close()  # type: ignore[attr-defined]  # the descriptors: `close` would refuse it
        else:
            self._process.close()
        self.report_end(Outcome(code, self._said.error))

    def _serve(self, name: str, arguments: tuple[Any, ...], answer: Answer) -> None:
        if name == "began":
            self.report_began(*arguments)
        elif name == "ready":
            self.report_ready()
        elif name == "ended":
            self._said = Outcome(*arguments)
        elif name == "listen":
            answer(self.supervisor.listen(self, *arguments))
        elif name == "release":
            self.supervisor.release(self, *arguments)
        elif name == "replace":
            self.supervisor.ask_to_replace(self)
        elif name == "run_on":
            answer(self.supervisor.run_on(*arguments))

    def order(self, name: str, *arguments: Any) -> "Future[Any]":
        """Call a method of Life on the loop."""
        return self._request("order", name, arguments)

    def run(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> "Future[Any]":
        """Call a function on the loop."""
        return self._request("run", function, arguments)

    def _request(self, name: str, *arguments: Any) -> "Future[Any]":
        if self._peer is not None:
            return self._peer.request(name, *arguments)
        future: Future[Any] = Future()  # the process is being started
        future.set_exception(not_running())
        return future

    def kill(self) -> bool:
        """Kill the process."""
        try:
            self._process.kill()
        except (ValueError, AttributeError):  # it has ended, and was closed, or is being closed by `_wait`
            pass
        return True


class DupFdOnStart:
    """A descriptor that is copied into a process when that is started."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[object]]:
        return _detached, (reduction.DupFd(self._fd),)


def _detached(duplicate: Any) -> int:
    fd: int = duplicate.detach()
    return fd


# In the member's process


class ProcessLink:
    """A member's link to the group's process, and the watch over that process."""

    def __init__(self, part: Part, control: socket.socket) -> None:
        self._part = part
        self._peer = Peer(control, self._serve)
        self._life: Life | None = None
        self._ended = threading.Event()
        self.is_cut_off = False  # the group no longer reads what this member says

    def watch(self, life: Life) -> None:
        """Begin to read."""
        self._life = life
        threading.Thread(target=self._read, name="loopcore_group", daemon=True).start()

    def _read(self) -> None:
        self._peer.run()
        # The group's process is gone, or this one has ended.
        assert self._life is not None
        self._life.is_given_up = self.is_cut_off = not self._ended.is_set()  # one that has not begun ends at once
        timeout = self._part.drain_timeout
        for order, arguments, seconds in ((self._life.drain, (timeout,), timeout), (self._life.cut, (), GRACE)):
            if self._ended.is_set():
                return
            self._life.calls.submit(order, arguments)
            if self._ended.wait(seconds):
                return
        os._exit(1)

    def _serve(self, name: str, arguments: tuple[Any, ...], answer: Answer) -> None:
        assert self._life is not None
        target, inner = arguments
        function = getattr(self._life, target) if name == "order" else target
        outer: Future[Any] = Future()
        answer(outer)
        self._life.calls.submit(function, inner, outer)

    def report_began(self, pid: int, thread_id: int) -> None:
        """Report the process."""
        self._peer.tell("began", pid, thread_id)

    def report_ready(self) -> None:
        """Report that `main` is ready."""
        self._peer.tell("ready")

    def listen(self, request: ListenRequest) -> "Future[Listening]":
        """Ask the group for sockets."""
        return self._peer.request("listen", request)

    def release(self, number: int) -> None:
        """Give sockets up."""
        self._peer.tell("release", number)

    def run_on(self, index: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> "Future[Any]":
        """Run a function on another member."""
        return self._peer.request("run_on", index, function, arguments)

    def ask_to_be_replaced(self, number: int, frame: object) -> None:
        """Handle SIGTERM. The loop sends it: a handler must not wait for a lock that the interrupted code may hold."""
        assert self._life is not None
        try:
            self._life.loop.call_soon_threadsafe(self._peer.tell, "replace")
        except (RuntimeError, AttributeError):  # the loop is closed, or not made yet
            pass

    def end(self, error: BaseException | None) -> None:
        """Report the end."""
        self._ended.set()
        if error is None:
            self._peer.tell("ended", 0, None)
        else:
            self._peer.tell("ended", code_of(error), portable(error))


def run_member(
    part: Part, control: socket.socket, receiver: socket.socket, senders: Sequence[socket.socket], memory_fd: int
) -> None:
    """Run a member: the main function of its process."""
    for sock in (control, receiver, *senders):  # multiprocessing leaves them inheritable
        sock.set_inheritable(False)
    signal.signal(signal.SIGINT, lambda number, frame: None)  # not SIG_IGN, which its child processes would inherit
    _, cells = map_cells(memory_fd, cells_of(part.count) * _CELL)
    os.close(memory_fd)
    link = ProcessLink(part, control)
    life = Life(part, link, SocketPost(receiver, senders, part.index), LoadTable(cells, part.count))
    link.watch(life)
    signal.signal(signal.SIGTERM, link.ask_to_be_replaced)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
    error: BaseException | None = None
    try:
        life.run()
    except BaseException as raised:
        error = raised
    link.end(error)
    if error is not None:
        sys.exit(code_of(error))
    if link.is_cut_off:  # if the group is still there, it replaces this member
        sys.exit(1)
