"""Server: the thread that talks to those who look at a loop. It needs nothing of the loop, which may stand still.

It sleeps until somebody connects: an inspected process that nobody looks at does not wake for it. Both directions are
bounded. A connection is read only after the answer to what it asked is gone, a question is a short line, and
of connections there are at most `MOST_CONNECTIONS`; the last come are turned away. They take turns, a question each.

Whatever goes wrong with a question ends the connection that it came from, and nothing else.
"""

import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol

from loopcore.log import plugin_logger
from loopcore_plugins.inspect import places
from loopcore_plugins.inspect.protocol import LONGEST_QUESTION, Lines, Message, ProtocolError, decode_question, encode

logger = plugin_logger.getChild("inspect")

MOST_CONNECTIONS: Final = 16
FAREWELL: Final = 2.0
"""Seconds that `stop` waits for the thread, which may be in the middle of an answer."""

BREATH: Final = 0.1
"""Seconds without looking after a connection could not be accepted."""


class Host(Protocol):
    """What the server asks for what it says. Thread: the server's."""

    def greeting(self) -> Message:
        """Return what is said to each who connects."""

    def answer(self, visitor: object, question: Message) -> Message:
        """Return the answer. Raises ProtocolError for a question that has none."""

    def forget(self, visitor: object) -> None:
        """`visitor` has gone."""

    def look(self) -> float | None:
        """Called whenever the thread wakes; returns the seconds after which it has to at the latest, None for never."""


class Connection:
    """One who looks."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.ending = False
        """Whether nothing more is read."""
        self._lines = Lines(LONGEST_QUESTION)
        self._questions: list[bytes] = []
        self._unsent = b""

    def say(self, message: Message) -> None:
        """Send `message`, as far as it goes now. Raises OSError if the peer has gone."""
        self._unsent += encode(message)
        self.flush()

    def flush(self) -> None:
        """Send more of what is left. Raises OSError if the peer has gone."""
        while self._unsent:
            try:
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
            except BlockingIOError:
                return

    def _receive(self) -> bool:
        """Take in what has come; return False at its end."""
        try:
            received = self.sock.recv(LONGEST_QUESTION)
        except BlockingIOError:
            return True
        self._questions += self._lines.feed(received)
        return bool(received)

    def next_question(self) -> bytes | None:
        """Return the next question, received now if none is waiting. None while what was said before is not gone.

        Raises OSError, ProtocolError.
        """
        if self._unsent or self.ending:
            return None
        if not self._questions:
            self.ending = not self._receive()
        return self._questions.pop(0) if self._questions else None

    def end(self) -> None:
        """Read and answer nothing more."""
        self.ending = True
        self._questions.clear()

    @property
    def is_over(self) -> bool:
        """Whether it can be closed."""
        return self.ending and not self._unsent

    def interest(self) -> int:
        """Return what to wait for. With more questions to answer that is its turn: there is room to write."""
        return selectors.EVENT_WRITE if self._unsent or self._questions else selectors.EVENT_READ


class Server:
    """Listens for one loop, in a thread of its own. Thread: any; `start` once, `stop` and `abandon` after it."""

    def __init__(self, listener: places.Listener, host: Host) -> None:
        self._host = host
        self._listener = listener
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._connections: dict[socket.socket, Connection] = {}
        self._stopping = False
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="loopcore-inspect", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._selector.register(self._listener.sock, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()

    def stop(self) -> None:
        """Remove the socket, end the thread and all connections. Idempotent."""
        if self._stopping:
            return
        self._stopping = True
        self._remove()
        self._wake.send(b"\0")
        self._thread.join(FAREWELL)
        if not self._thread.is_alive():
            self._close_all()

    def abandon(self) -> None:
        """In a forked child: close the copies, and leave the socket to the parent, whose thread serves it."""
        self._stopping = True
        self._close_all()

    def _remove(self) -> None:
        try:
            self._listener.remove()
        except OSError as exc:  # the process is another user's by now
            logger.warning("%s stays behind: %s", self._listener.path, exc)

    def _close_all(self) -> None:
        self._listener.close()
        for sock in (self._wake, self._woken, *self._connections):
            sock.close()
        self._connections.clear()
        self._selector.close()

    def _run(self) -> None:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            while not self._stopping:
                for key, _ in self._selector.select(self._look()):
                    self._serve(key.fileobj)
        except Exception:
            logger.exception("inspect has failed, and serves %s no longer", self._listener.path)
            self._remove()
        finally:
            for connection in list(self._connections.values()):
                self._host.forget(connection)

    def _look(self) -> float | None:
        try:
            return self._host.look()
        except Exception as exc:
            self._note(exc)
            return BREATH

    def _serve(self, fileobj: Any) -> None:
        connection = self._connections.get(fileobj)
        if connection is not None:
            self._guard(connection, lambda: self._attend(connection))
        elif fileobj is self._listener.sock:
            self._accept()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.sock.accept()
        except OSError:  # it has gone again; or there is no descriptor left for it, and it goes on asking
            time.sleep(BREATH)
            return
        try:
            if len(self._connections) >= MOST_CONNECTIONS or not places.may_connect(sock):
                sock.close()
                return
            connection = Connection(sock)
            self._selector.register(sock, selectors.EVENT_READ)
        except OSError:  # the system's limit of what is watched
            sock.close()
            return
        self._connections[sock] = connection
        self._guard(connection, lambda: connection.say(self._host.greeting()))

    def _attend(self, connection: Connection) -> None:
        """Give a connection its turn: send what is left, or answer a question."""
        connection.flush()
        line = connection.next_question()
        if line is None:
            return
        question = decode_question(line)
        reply: Message = {"id": question.get("id")}
        try:
            reply["answer"] = self._host.answer(connection, question)
        except ProtocolError as exc:
            reply["error"] = str(exc)
        connection.say(reply)

    def _guard(self, connection: Connection, attend: Callable[[], None]) -> None:
        """Do something for a connection, and close it if that shows that it is over, or fails."""
        try:
            try:
                attend()
            except OSError:
                raise
            except Exception as exc:
                connection.end()
                connection.say({"id": None, "error": self._note(exc)})
        except Exception:  # the peer has gone, or there is no memory to say what failed
            self._close(connection)
            return
        if connection.is_over:
            self._close(connection)
        else:
            self._selector.modify(connection.sock, connection.interest())

    def _note(self, exc: Exception) -> str:
        """Return what to say about `exc`. An error of ours, or of the program's objects, is logged the first time."""
        if isinstance(exc, ProtocolError):
            return str(exc)
        if not self._has_failed:
            self._has_failed = True
            logger.error("inspect failed to answer; it goes on, and logs no more of these", exc_info=exc)
        return f"there is no answer: {type(exc).__name__} was raised in the process, see its log"

    def _close(self, connection: Connection) -> None:
        self._selector.unregister(connection.sock)
        del self._connections[connection.sock]
        connection.sock.close()
        self._host.forget(connection)
