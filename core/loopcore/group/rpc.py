"""Requests between the group's process and a member's, in both directions, over one pair of sockets.

A message is a header (length, number of descriptors), then a pickle; descriptors travel with the header (SCM_RIGHTS).
Only the group and its own children hold the sockets, so the pickles come from the same program. The arguments of a
request are a pickle inside the message: if it cannot be loaded, that request fails, not the connection.

Each side has a thread that reads, so that a blocked loop still learns that its group has died. A message that the other
side does not take within `SEND_TIMEOUT` seconds ends the connection, which counts as the death of that side.
"""

import math
import pickle
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from loopcore.group.calls import settle
from loopcore.group.descriptors import receive
from loopcore.group.errors import MemberFailedError
from loopcore.group.part import Listening

SEND_TIMEOUT: Final = 10.0
"""Seconds that a message may wait for room."""

DESCRIPTORS: Final = 128
"""Descriptors in one message at most; Linux allows 253."""

_HEADER: Final = struct.Struct("!IH")

Answer = Callable[["Future[Any]"], None]
"""Sends the outcome of a future from the thread that settles it, not from the reader: sending may block."""

Serve = Callable[[str, tuple[Any, ...], Answer], None]
"""Begins a request of the other side, by name and arguments; gives its future to `Answer` if it needs an answer."""


class Channel:
    """Messages with descriptors over a stream socket. `send` may be called in any thread, `recv` in one."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        sock.setblocking(True)
        if hasattr(socket, "SO_SNDTIMEO"):
            seconds = math.ceil(SEND_TIMEOUT)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", seconds, 0))

    def send(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send a message. Raises OSError if the other side is gone, or does not read."""
        header = _HEADER.pack(len(message), len(descriptors))
        with self._lock:
            try:
                if descriptors:
                    sent = socket.send_fds(self._sock, [header], list(descriptors))
                    self._sock.sendall(header[sent:] + message)
                else:
                    self._sock.sendall(header + message)
            except OSError:
                self.shut()  # a message that was sent in part cannot be continued
                raise

    def recv(self) -> tuple[bytes, list[int]] | None:
        """Wait for a message and its descriptors, which the caller closes; None at the end."""
        try:
            header, descriptors = receive(self._sock, _HEADER.size, DESCRIPTORS)
            header += self._exactly(_HEADER.size - len(header)) if header else b""
            if len(header) < _HEADER.size:
                return None
            size, _ = _HEADER.unpack(header)
            message = self._exactly(size)
            return (message, descriptors) if len(message) == size else None
        except OSError:
            return None

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size and (part := self._sock.recv(min(size, 1 << 20))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def shut(self, how: int = socket.SHUT_RDWR) -> None:
        """End the connection: `recv` returns None, after what has come already."""
        try:
            self._sock.shutdown(how)
        except OSError:
            pass

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


class Peer:
    """One side. `request` and `tell` may be called in any thread; `run` reads, in a thread made for it."""

    def __init__(self, sock: socket.socket, serve: Serve) -> None:
        self._channel = Channel(sock)
        self._serve = serve
        self._lock = threading.Lock()
        self._asked: dict[int, Future[Any]] = {}
        self._serving: dict[int, Future[Any]] = {}
        self._last = 0
        self._is_over = False

    def request(self, name: str, *arguments: Any) -> "Future[Any]":
        """Ask the other side; the future gets the answer. What cannot be pickled is reported there, too."""
        future: Future[Any] = Future()
        try:
            payload = pickle.dumps(arguments)
        except Exception as error:  # pickle raises many kinds
            future.set_exception(error)
            return future
        with self._lock:
            self._last += 1
            number = self._last
            if self._is_over:
                future.set_exception(MemberFailedError("the member has ended"))
                return future
            self._asked[number] = future
        self._send((name, number, payload))
        future.add_done_callback(lambda done: self._cancel(number, done) if done.cancelled() else None)
        return future

    def tell(self, name: str, *arguments: Any) -> None:
        """Send a message that needs no answer; nothing happens if the other side is gone."""
        self._send((name, 0, pickle.dumps(arguments)))

    def _send(self, message: tuple[str, int, bytes], descriptors: Sequence[int] = ()) -> None:
        try:
            self._channel.send(pickle.dumps(message), descriptors)
        except OSError:
            pass  # `run` ends, and with it every request

    def _cancel(self, number: int, future: "Future[Any]") -> None:
        future.set_running_or_notify_cancel()  # concurrent.futures.wait waits for this
        with self._lock:
            if self._asked.pop(number, None) is None:
                return
        self.tell("cancel", number)

    def run(self) -> None:
        """Read until the other side is gone or `shut` is called. Requests without an answer get MemberFailedError."""
        while (received := self._channel.recv()) is not None:
            self._dispatch(*received)
        with self._lock:
            self._is_over = True
            asked, self._asked = self._asked, {}
            serving = list(self._serving.values())
        for future in asked.values():
            settle(future, error=MemberFailedError("the member ended before it answered"))
        for future in serving:
            future.cancel()

    def shut(self) -> None:
        """Let `run` return when it has read what has come already."""
        self._channel.shut(socket.SHUT_RD)

    def close(self) -> None:
        """Close the socket, after `run` has returned."""
        self._channel.close()

    def _dispatch(self, message: bytes, descriptors: list[int]) -> None:
        name, number, payload = pickle.loads(message)
        sockets = [socket.socket(fileno=fd) for fd in descriptors]
        if name == "answer":
            self._answered(number, payload, sockets)
            return
        for sock in sockets:
            sock.close()  # only answers carry descriptors
        try:
            arguments = pickle.loads(payload)
            if name == "cancel":
                self._cancelled(*arguments)
                return
            self._serve(name, arguments, partial(self._answer_with, number))
        except Exception as error:
            self._answer_error(number, error)

    def _answer_with(self, number: int, future: "Future[Any]") -> None:
        with self._lock:
            self._serving[number] = future
        future.add_done_callback(partial(self._answer, number))

    def _cancelled(self, number: int) -> None:
        with self._lock:
            future = self._serving.get(number)
        if future is not None:
            future.cancel()

    def _answer(self, number: int, future: "Future[Any]") -> None:
        with self._lock:
            self._serving.pop(number, None)
        if future.cancelled():  # by the other side, which does not wait any more
            return
        error = future.exception()
        if error is not None:
            self._answer_error(number, error)
            return
        value, descriptors = future.result(), []
        if isinstance(value, Listening):
            descriptors = [sock.fileno() for sock in value.sockets]
        try:
            payload = pickle.dumps((True, value.number if descriptors else value))
        except Exception as unpicklable:
            self._answer_error(number, unpicklable)
        else:
            self._send(("answer", number, payload), descriptors)
        if descriptors:
            for sock in value.sockets:
                sock.close()

    def _answer_error(self, number: int, error: BaseException) -> None:
        if number:
            self._send(("answer", number, pickle.dumps((False, portable(error)))))

    def _answered(self, number: int, payload: bytes, sockets: list[socket.socket]) -> None:
        with self._lock:
            future = self._asked.pop(number, None)
        try:
            succeeded, value = pickle.loads(payload)
        except Exception as error:
            succeeded, value = False, error
        if succeeded and sockets:
            value = Listening(value, sockets)
        taken = future is not None and (settle(future, value) if succeeded else settle(future, error=value))
        for sock in sockets if not taken else ():
            sock.close()


def portable(error: BaseException) -> BaseException:
    """Return `error`, or one that says the same, so that it can be pickled; with its traceback as a note."""
    text = "".join(traceback.format_exception(error)).rstrip()
    try:
        copy: BaseException = pickle.loads(pickle.dumps(error))
    except Exception:
        copy = RuntimeError(f"{type(error).__qualname__}: {error}")
    copy.add_note(f"in the other process:\n{text}")
    return copy
