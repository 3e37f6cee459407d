"""The wire format: one JSON object a line, in UTF-8, ended by a newline.

Every message is a frozen dataclass; its `type` on the wire is the key of the table it stands in. REQUESTS is
what a client may send, EVENTS is what a server may send. Both sides use the same two functions:

    encode(Post("tea", "hello"))                    -> b'{"type":"post","group":"tea","text":"hello"}\\n'
    decode(b'{"type":"post", ...}\\n', REQUESTS)    -> Post(group='tea', text='hello')

`decode` raises WireError and nothing else, whatever bytes it is given: a server must survive its clients.
Fields that a message does not know are ignored, so that a newer client can talk to an older server.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

M = TypeVar("M")

MAX_LINE = 64 * 1024
"""Bytes in a line, newline included. The limits below see to it that no valid message is longer."""

MAX_NAME = 32
"""Characters in the name of a group or of a member."""

MAX_TEXT = 8_000
"""Characters in a post: at most 48,000 bytes (a control character is written as \\u0001)."""

MAX_MEMBERS = 200
"""Members in a group: the list of their names must fit into a line."""

MAX_GROUPS = 50
"""Groups a connection may be in."""


class WireError(Exception):
    """A line that is not a valid message: `code` is for programs, `reason` for people."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Join:
    group: str
    name: str


@dataclass(frozen=True, slots=True)
class Leave:
    group: str


@dataclass(frozen=True, slots=True)
class Post:
    group: str
    text: str


@dataclass(frozen=True, slots=True)
class List:
    group: str


@dataclass(frozen=True, slots=True)
class Quit:
    """The last request: whatever was asked before is answered, then the connection ends. For TLS, which has no half."""


@dataclass(frozen=True, slots=True)
class Joined:
    group: str
    name: str


@dataclass(frozen=True, slots=True)
class Left:
    group: str
    name: str


@dataclass(frozen=True, slots=True)
class Posted:
    group: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Members:
    group: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Missed:
    """`count` messages of the group were dropped at this place, because the receiver did not keep up."""

    group: str
    count: int


@dataclass(frozen=True, slots=True)
class Error:
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Bye:
    """The last message of a server that shuts down."""

    reason: str


Request = Join | Leave | Post | List | Quit
Event = Joined | Left | Posted | Members | Missed | Error | Bye

REQUESTS: Mapping[str, type[Request]] = {"join": Join, "leave": Leave, "post": Post, "list": List, "quit": Quit}
EVENTS: Mapping[str, type[Event]] = {
    "joined": Joined,
    "left": Left,
    "message": Posted,
    "members": Members,
    "missed": Missed,
    "error": Error,
    "bye": Bye,
}

_TYPE_OF = {cls: name for table in (REQUESTS, EVENTS) for name, cls in table.items()}


def encode(message: Request | Event) -> bytes:
    """The line of `message`, newline included. Nothing is checked: own messages are right, or a bug."""
    fields = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
    members = {"type": _TYPE_OF[type(message)], **fields}
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes, vocabulary: Mapping[str, type[M]]) -> M:
    """The message that `line` (with or without its newline) holds; raises WireError."""
    members = _json_object(line)
    if "type" not in members:
        raise WireError("missing-field", "the message has no field 'type'")
    kind = members["type"]
    # Not every JSON value can be looked up in a dict: a list or an object cannot.
    cls = vocabulary.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise WireError("unknown-type", f"no message has the type {_quoted(kind)}; known: {', '.join(vocabulary)}")
    values = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]  # all messages are dataclasses
        if field.name not in members:
            raise WireError("missing-field", f"{_quoted(kind)} needs a field '{field.name}'")
        values[field.name] = _CHECKS[field.name](field.name, members[field.name])
    return cls(**values)


def _json_object(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode()
    except UnicodeDecodeError as exc:
        raise WireError("not-utf8", f"byte {exc.start} of the line is not UTF-8") from None
    try:
        value = json.loads(text, parse_constant=_not_json)
    except ValueError:
        # Also a number of more than 4,300 digits, which `int` refuses (CVE-2020-10735).
        raise WireError("not-json", "the line is not JSON") from None
    except RecursionError:
        raise WireError("not-json", "the line is nested too deeply") from None
    if not isinstance(value, dict):
        raise WireError("not-object", "the line is JSON, but not an object")
    return value


def _not_json(constant: str) -> NoReturn:
    raise ValueError(constant)  # Python reads NaN and Infinity, JSON (RFC 8259) knows neither


def _quoted(value: object) -> str:
    """`value` for an error text: short, and in ASCII, because it may hold anything."""
    text = ascii(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _string(field: str, value: object, limit: int) -> str:
    if not isinstance(value, str):
        raise WireError("wrong-type", f"'{field}' must be a string")
    if not 1 <= len(value) <= limit:
        raise WireError("bad-value", f"'{field}' must have 1 to {limit} characters, this has {len(value)}")
    if any("\ud800" <= char <= "\udfff" for char in value):
        # JSON can escape half a surrogate pair ("\\ud800"); UTF-8 cannot carry it on.
        raise WireError("bad-value", f"'{field}' holds half a surrogate pair")
    return value


def _text(field: str, value: object) -> str:
    return _string(field, value, MAX_TEXT)


def _name(field: str, value: object) -> str:
    name = _string(field, value, MAX_NAME)
    if not name.isprintable() or name != name.strip():
        raise WireError("bad-value", f"'{field}' must be printable, without spaces around it")
    return name


def _names(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise WireError("wrong-type", f"'{field}' must be a list of strings")
    return tuple(_name(field, name) for name in value)


def _count(field: str, value: object) -> int:
    if type(value) is not int:  # True is an int to isinstance
        raise WireError("wrong-type", f"'{field}' must be a whole number")
    if value < 1:
        raise WireError("bad-value", f"'{field}' must be at least 1")
    return value


_CHECKS: Mapping[str, Callable[[str, object], object]] = {
    "group": _name,
    "name": _name,
    "names": _names,
    "text": _text,
    "count": _count,
    "code": _text,
    "reason": _text,
}
