"""Server: the thread that answers those who inspect a loop. It needs nothing of the loop, which may be stalled.

It sleeps until a client connects: an inspected process without one does not wake for it. Both directions are
bounded. A connection is read only after the answer to its last question has been sent, a question is a short line, and
there are at most `MOST_CONNECTIONS` connections; later ones are refused. They are served in turn, a question each.

An error in a question ends the connection that it came from, and has no other effect.
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

RETRY_PAUSE: Final = 0.1
"""Seconds to pause after a connection could not be accepted, or the loop could not be looked at."""


class Host(Protocol):
    """What provides the server's answers. Thread: the server's."""

    def greeting(self) -> Message:
        """Return the greeting for a new connection."""

    def answer(self, visitor: object, question: Message) -> Message:
        """Return the answer. Raises ProtocolError for an unknown question."""

    def forget(self, visitor: object) -> None:
        """Note that `visitor` has gone."""

    def look(self) -> float | None:
        """Called whenever the thread wakes; return the longest time in seconds until the next call, None for never."""


class Connection:
    """A client's connection."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.ending = False
        """Whether nothing more is read."""
        self._lines = Lines(LONGEST_QUESTION)
        self._questions: list[bytes] = []
        self._unsent = b""

    def say(self, message: Message) -> None:
        """Send `message`, as much of it as possible now. Raises OSError if the peer has gone."""
        self._unsent += encode(message)
        self.flush()

    def flush(self) -> None:
        """Send more of the rest. Raises OSError if the peer has gone."""
        while self._unsent:
            try:
                self._unsent = self._unsent[self.sock.send(self._unsent) :]
            except BlockingIOError:
                return

    def _receive(self) -> bool:
        """Receive what has arrived; return False at its end."""
        try:
            received = self.sock.recv(LONGEST_QUESTION)
        except BlockingIOError:
            return True
        self._questions += self._lines.feed(received)
        return bool(received)

    def next_question(self) -> bytes | None:
        """Return the next question, received now if none is buffered. None while an answer is still being sent.

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
        """Whether the connection can be closed."""
        return self.ending and not self._unsent

    def interest(self) -> int:
        """Return the interest to register. While questions are buffered, WRITE: it serves as the connection's turn."""
        return selectors.EVENT_WRITE if self._unsent or self._questions else selectors.EVENT_READ


class Server:
    """Listens for one loop, in a separate thread. Thread: any; `start` once, `stop` and `abandon` after it."""

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
        except OSError as exc:  # the process has another user by now
            logger.warning("%s could not be removed: %s", self._listener.path, exc)

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
            logger.exception("inspect has failed, and no longer serves %s", self._listener.path)
            self._remove()
        finally:
            for connection in list(self._connections.values()):
                self._host.forget(connection)

    def _look(self) -> float | None:
        try:
            return self._host.look()
        except Exception as exc:
            self._note(exc)
            return RETRY_PAUSE

    def _serve(self, fileobj: Any) -> None:
        connection = self._connections.get(fileobj)
        if connection is not None:
            self._guard(connection, lambda: self._attend(connection))
        elif fileobj is self._listener.sock:
            self._accept()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.sock.accept()
        except OSError:  # the client has gone again; or no descriptor is left, and the connection stays pending
            time.sleep(RETRY_PAUSE)
            return
        try:
            if len(self._connections) >= MOST_CONNECTIONS or not places.may_connect(sock):
                sock.close()
                return
            connection = Connection(sock)
            self._selector.register(sock, selectors.EVENT_READ)
        except OSError:  # the system's limit of watched descriptors
            sock.close()
            return
        self._connections[sock] = connection
        self._guard(connection, lambda: connection.say(self._host.greeting()))

    def _attend(self, connection: Connection) -> None:
        """Serve a connection once: send the rest of an answer, or answer a question."""
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
        """Call `attend` for a connection; close the connection if it is over, or the call fails."""
        try:
            try:
                attend()
            except OSError:
                raise
            except Exception as exc:
                connection.end()
                connection.say({"id": None, "error": self._note(exc)})
        except Exception:  # the peer has gone, or memory has run out
            self._close(connection)
            return
        if connection.is_over:
            self._close(connection)
        else:
            self._selector.modify(connection.sock, connection.interest())

    def _note(self, exc: Exception) -> str:
        """Return a description of `exc`. Errors of ours, or of the program's objects, are logged the first time."""
        if isinstance(exc, ProtocolError):
            return str(exc)
        if not self._has_failed:
            self._has_failed = True
            logger.error("inspect failed to answer a question; further failures are not logged", exc_info=exc)
        return f"no answer: {type(exc).__name__} was raised in the process, see its log"

    def _close(self, connection: Connection) -> None:
        self._selector.unregister(connection.sock)
        del self._connections[connection.sock]
        connection.sock.close()
        self._host.forget(connection)
