"""The surface of asyncio that loopcore has to have: every public method and parameter, drawn from the running asyncio.

An entry is a method ("EventLoop.create_server", with the parameters that nobody can leave out) or one of its other
parameters. Methods of transports are counted for each kind of transport, because each kind has its own code. What
asyncio got later than Python 3.11 loopcore has on every Python; NEWER says since when asyncio has it.
"""

import asyncio
import functools
import inspect
import sys
from asyncio import base_events, base_subprocess, futures, selector_events, sslproto, tasks, transports, unix_events
from collections.abc import Iterator
from typing import NamedTuple

import loopcore
from loopcore.transports.datagram import DatagramTransport
from loopcore.transports.pipes import ReadPipeTransport, WritePipeTransport
from loopcore.transports.process import ProcessTransport
from loopcore.transports.server import Server
from loopcore.transports.stream import StreamTransport
from loopcore.transports.tls import SSLTransport


class Owner(NamedTuple):
    """A class of asyncio's, or two of them that are alike, and loopcore's."""

    theirs: tuple[type, ...]
    ours: type
    interface: type = object
    """The abstract class of a transport: what it has is public, though asyncio's class may have more names."""


OWNERS = {
    "EventLoop": Owner((asyncio.SelectorEventLoop,), loopcore.EventLoop),
    # The C classes cannot show all signatures.
    "Future": Owner((futures._PyFuture, asyncio.Future), loopcore.Future),  # type: ignore[attr-defined]
    "Task": Owner((tasks._PyTask, asyncio.Task), loopcore.Task),  # type: ignore[attr-defined]
    "Handle": Owner((asyncio.Handle,), loopcore.Handle),
    "TimerHandle": Owner((asyncio.TimerHandle,), loopcore.TimerHandle),
    "Server": Owner((base_events.Server,), Server),
    "Transport": Owner((selector_events._SelectorSocketTransport,), StreamTransport, transports.Transport),
    "SSLTransport": Owner((sslproto._SSLProtocolTransport,), SSLTransport, transports.Transport),
    "DatagramTransport": Owner(
        (selector_events._SelectorDatagramTransport,), DatagramTransport, transports.DatagramTransport
    ),
    "ReadPipeTransport": Owner((unix_events._UnixReadPipeTransport,), ReadPipeTransport, transports.ReadTransport),
    "WritePipeTransport": Owner((unix_events._UnixWritePipeTransport,), WritePipeTransport, transports.WriteTransport),
    "SubprocessTransport": Owner(
        (base_subprocess.BaseSubprocessTransport,), ProcessTransport, transports.SubprocessTransport
    ),
}

NEWER = {
    ("EventLoop.create_connection", "all_errors"): (3, 12),
    ("EventLoop.shutdown_default_executor", "timeout"): (3, 12),
    ("Task.__init__", "eager_start"): (3, 12),
    ("Task.get_context", ""): (3, 12),
    ("Handle.get_context", ""): (3, 12),
    ("TimerHandle.get_context", ""): (3, 12),
    ("EventLoop.create_server", "keep_alive"): (3, 13),
    ("EventLoop.create_unix_server", "cleanup_socket"): (3, 13),
    ("Server.close_clients", ""): (3, 13),
    ("Server.abort_clients", ""): (3, 13),
    ("EventLoop.create_task", "kwargs"): (3, 13, 3),
}
"""What the first Python of those that loopcore runs on does not have: method and parameter, and its first Python."""

HIDDEN: dict[tuple[str, str], tuple[int, ...]] = {
    ("EventLoop.create_task", "name"): (3, 14),
    ("EventLoop.create_task", "context"): (3, 14),
}
"""What asyncio takes among `kwargs` from this Python on, and so no longer shows: method and parameter."""

EXTRA = {
    "Transport": ("peername", "sockname", "socket"),
    "SSLTransport": (
        "cipher", "compression", "peercert", "peername", "sockname", "socket", "ssl_object", "sslcontext",
    ),
    "DatagramTransport": ("peername", "sockname", "socket"),
    "ReadPipeTransport": ("pipe",),
    "WritePipeTransport": ("pipe",),
    "SubprocessTransport": ("subprocess",),
}  # fmt: skip
"""What `get_extra_info` of each transport is asked for; test_extra_info.py asks asyncio whether this is all."""

OPERATORS = frozenset(
    {"__await__", "__iter__", "__class_getitem__", "__aenter__", "__aexit__"}
    | {"__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"}
)
"""Methods with such names that are part of the interface, where a class of asyncio's defines them."""

NO_METHODS = frozenset({"max_size"})
"""Public names of asyncio's that are no interface: how much its transports receive at once."""


class Entry(NamedTuple):
    """A method, or one of its parameters that may be left out: `required` are those that may not."""

    method: str
    parameter: str = ""
    required: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.method, self.parameter

    @property
    def since(self) -> tuple[int, ...] | None:
        return NEWER.get(self.key)


def method_names(owner: str) -> set[str]:
    """The public names of asyncio's class: methods, properties, operators."""
    found: set[str] = set()
    theirs, _, interface = OWNERS[owner]
    for cls in (base for each in theirs for base in each.__mro__ if base is not object):
        abstract = interface is not object and cls.__module__ == transports.__name__
        if abstract and not issubclass(interface, cls) and cls is not transports._FlowControlMixin:
            continue
        found |= {
            name
            for name, value in vars(cls).items()
            if (not name.startswith("_") or (name in OPERATORS and value is not None)) and name not in NO_METHODS
        }
    return found | ({"__init__"} if owner in ("Future", "Task") else set())


def attribute_names() -> set[str]:
    """The public attributes of asyncio's loop that are set when it is made."""
    loop = asyncio.SelectorEventLoop()
    try:
        return {name for name in vars(loop) if not name.startswith("_")}
    finally:
        loop.close()


def parameters(owner: type, name: str) -> dict[str, inspect.Parameter]:
    """The parameters of a method but `self`; none of what is no method."""
    value = getattr(owner, name)
    if name in OPERATORS or not callable(value):
        return {}
    found = dict(inspect.signature(value).parameters)
    found.pop("self", None)
    return found


def may_be_left_out(parameter: inspect.Parameter) -> bool:
    return parameter.default is not parameter.empty or parameter.kind in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


def entries_of(owner: str, name: str, of: type) -> Iterator[Entry]:
    """The entries of one method, by the signature it has in the class `of`."""
    method = f"{owner}.{name}"
    found = parameters(of, name)
    yield Entry(method, "", tuple(each for each, value in found.items() if not may_be_left_out(value)))
    yield from (Entry(method, each) for each, value in found.items() if may_be_left_out(value))
    if name == "get_extra_info":
        yield from (Entry(method, f"'{key}'") for key in EXTRA[owner])


@functools.cache
def running_surface() -> dict[tuple[str, str], Entry]:
    """Every entry of the asyncio that is running, by method and parameter."""
    found = [
        entry
        for owner, classes in OWNERS.items()
        for name in method_names(owner)
        for entry in entries_of(owner, name, classes.theirs[0])
    ]
    found += [Entry(f"EventLoop.{name}") for name in attribute_names()]
    return {entry.key: entry for entry in found}


@functools.cache
def surface() -> dict[tuple[str, str], Entry]:
    """Every entry of any known Python's asyncio that loopcore has: the same on each Python."""
    running = running_surface()
    wanted = {*running, *NEWER, *HIDDEN}
    found = {}
    for method in dict.fromkeys(method for method, _ in wanted):
        owner, name = method.split(".")
        # Constructors of compiled classes show no signature.
        of = OWNERS[owner].theirs[0] if name == "__init__" else OWNERS[owner].ours
        if not hasattr(of, name):
            continue  # test_table.py names what is lacking
        newer = [Entry(*key) for key in NEWER if key[0] == method]
        for entry in [*entries_of(owner, name, of), *newer]:
            if entry.key in wanted:
                found.setdefault(entry.key, entry)
    return found


def exists_here(entry: Entry) -> bool:
    """Whether the running Python's asyncio is new enough to have it."""
    return entry.since is None or sys.version_info >= entry.since
