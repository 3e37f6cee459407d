"""Protocol: the messages on the socket. One JSON object a line, in UTF-8.

The process sends first: a greeting with its identity and the version of the protocol. Then the
client asks, `{"id": 1, "ask": "ps"}`, and gets `{"id": 1, "answer": {...}}` or `{"id": 1, "error": "..."}`, in
the order of the questions. `id` is an integer, a string or null. A line that is too long, nested, or not
such an object is answered with an error and ends the connection. New questions and new members of answers do not change
the version; readers ignore what they do not know.
"""

import json
from typing import Any, Final

VERSION: Final = 1
LONGEST_QUESTION: Final = 4096
"""The most bytes of a line that the process reads, the line's end included."""
_MOST_BRACKETS: Final = 16
"""The most brackets in a question, so that the inspected process's stack does not depend on the client."""

Message = dict[str, Any]


class ProtocolError(Exception):
    """The peer violates the protocol; the message says how."""


def encode(message: Message) -> bytes:
    """Return `message` as a line."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode(line: bytes) -> Message:
    """Return the object in `line`. Raises ProtocolError for anything else."""
    try:
        message = json.loads(line.decode())
    except (ValueError, RecursionError):
        raise ProtocolError("a line is not JSON") from None
    if not isinstance(message, dict):
        raise ProtocolError("a line is not a JSON object")
    return message


def decode_question(line: bytes) -> Message:
    """Return the question in `line`, with an `id` that can be sent back. Raises ProtocolError for anything else."""
    if line.count(b"[") + line.count(b"{") > _MOST_BRACKETS:
        raise ProtocolError("a question is nested too deeply")
    question = decode(line)
    if not isinstance(question.get("id"), int | str | None):
        raise ProtocolError("`id` must be an integer, a string or null")
    return question


class Lines:
    """Splits received bytes into lines. The buffer is bounded."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._rest = bytearray()

    def feed(self, received: bytes) -> list[bytes]:
        """Return the lines that `received` completes. Raises ProtocolError for one that is too long."""
        self._rest += received
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        if any(len(line) >= self._longest for line in (*lines, rest)):
            raise ProtocolError(f"a line is longer than {self._longest} bytes")
        return [bytes(line) for line in lines]
