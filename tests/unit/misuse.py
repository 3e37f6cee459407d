# ruff: noqa: T201 - what is printed is the result
"""Use loopcore's objects as no program should, and see whether the process survives.

    python misuse.py never-initialised PACKAGE
    python misuse.py in-use PACKAGE BACKEND

It finds every extension type, every attribute and, from the TypeErrors, every type of argument. What
is done to one type is done in a process of its own; a line is printed for each that was killed by a signal, with the
use that killed it. `in-use` takes the objects of a loop at work, `never-initialised` those that `__new__` alone makes.
"""

import asyncio
import contextlib
import gc
import importlib
import inspect
import logging
import os
import re
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import loopcore
import loopcore_backends
from loopcore.build_info import hot_sources

SECONDS_OF_CPU = 20
"""After that a process counts as hung."""

WAITS = 0.2
"""Seconds after which a call that waits is interrupted."""

EXPECTED = re.compile(r"expected ([\w.]+), got|must be ([\w.]+), not")
LEFT_OUT = frozenset({"__class__", "__new__", "__init_subclass__", "__subclasshook__"})
VALUES = (None, object(), 0, -1, 5, 99, 1 << 70, 1.5, b"x", "x", (), [], {}, print)
BUILT_IN = {each.__name__: each for each in (tuple, list, dict, set, bytes, bytearray, str)}

Note = Callable[[str], None]


class InterruptedWait(BaseException):
    """Ends a call that would wait for ever."""


def modules(package: str) -> list[Any]:
    """Import what is compiled, or would be, in a package."""
    found = {**hot_sources(), **hot_sources(Path(loopcore_backends.__path__[0]))}
    return [importlib.import_module(name) for name in found if name.startswith(package)]


def own_types(module: Any) -> list[type]:
    """Return the types that a module defines."""
    return [each for each in vars(module).values() if type(each) is type and each.__module__ == module.__name__]


TYPES = {f"{each.__module__}.{each.__qualname__}": each for module in modules("") for each in own_types(module)}
TYPES |= {each.__qualname__: each for each in TYPES.values()} | BUILT_IN


def bare(cls: type) -> Any:
    """Make an object without `__init__`; None where that is refused."""
    try:
        return cls.__new__(cls)
    except TypeError:
        return None


def attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call; whatever is raised is fine."""
    signal.setitimer(signal.ITIMER_REAL, WAITS)
    try:
        result = function(*arguments)
        if inspect.iscoroutine(result):
            result.close()
        return result
    except BaseException:
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def argument_lists(function: Callable[..., Any]) -> Iterator[tuple[Any, ...]]:
    """Yield arguments to try: the same value for all; then None and bare objects where their types are asked for."""
    yield ()
    for count in range(1, 5):
        for value in VALUES:
            yield (value,) * count
    for count in range(1, 5):
        arguments: list[Any] = [None] * count
        for position in range(count):
            probe = [object() if each is None else each for each in arguments]
            try:
                function(*probe)
                break
            except TypeError as error:
                matched = EXPECTED.search(str(error))
            except BaseException:
                break
            cls = TYPES.get(matched[1] or matched[2]) if matched else None
            if cls is None:
                break
            arguments[position] = bare(cls)
            yield tuple(arguments)


def use_attribute(make: Callable[[], Any], name: str, note: Note, then: Callable[[], object]) -> None:
    """Get, call, set and delete an attribute of what `make` returns, in each way; `then` shows what that has broken."""
    note(name)
    value = attempt(getattr, make(), name)
    if callable(value):
        for arguments in argument_lists(value):
            note(f"{name}{arguments!r:.200}")
            attempt(attempt(getattr, make(), name), *arguments)
            then()
    for value in (*VALUES, bare(type(make()))):
        note(f"{name} = {value!r:.50}")
        target = make()
        with contextlib.suppress(Exception):
            setattr(target, name, value)
            look_at(target, name)
            then()
    note(f"del {name}")
    with contextlib.suppress(Exception):
        target = make()
        delattr(target, name)
        look_at(target, name)


def look_at(target: Any, name: str) -> None:
    """See what is left of an object."""
    attempt(repr, target)
    attempt(getattr, target, name)
    if hasattr(target, "close"):
        attempt(target.close)


def nothing() -> None:
    """What comes after using an object that nobody else knows."""


def names_of(cls: type) -> list[str]:
    """Return the attributes to try."""
    return [name for name in dir(cls) if name not in LEFT_OUT]


def use_never_initialised(cls: type, names: Iterable[str], note: Note) -> None:
    """Try objects that are made by `__new__` alone."""
    if bare(cls) is not None:
        for name in names:
            use_attribute(partial(bare, cls), name, note, nothing)


def use_function(function: Callable[..., Any], names: Iterable[str], note: Note) -> None:
    """Try a function of a module."""
    for arguments in argument_lists(function):
        note(f"{arguments!r:.200}")
        attempt(function, *arguments)


class World:
    """A loop at work, and all that a program can reach from it."""

    def __init__(self, backend: str) -> None:
        self.loop = loopcore.new_event_loop(backend)
        self.loop.set_exception_handler(lambda loop, context: None)
        self.kept: list[Any] = []
        self.loop.run_until_complete(self._populate())

    async def _populate(self) -> None:
        loop = self.loop
        ours, theirs = socket.socketpair()
        self.kept += [theirs, await loop.connect_accepted_socket(asyncio.Protocol, ours)]
        self.kept += [await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))]
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        self.kept += [server, *await asyncio.open_connection(*server.sockets[0].getsockname())]
        self.kept += [loop.create_future(), loop.create_task(asyncio.sleep(1000)), loop.call_soon(print)]
        self.kept += [loop.call_later(1000, print), loop.call_immediate(print), loop.call_soon(print)]
        await asyncio.sleep(0)
        self.kept += [loop.call_soon(id, 1), self.kept[1][0].write(b"x" * 10)]

    def objects(self) -> dict[type, Any]:
        """Return one object of each extension type that can be reached."""
        seen, found = {id(self)}, {}
        left: list[Any] = [self.loop, *self.kept]
        while left:
            each = left.pop(0)
            if id(each) in seen or isinstance(each, (type, type(os))) or inspect.isfunction(each):
                continue
            seen.add(id(each))
            cls = type(each)
            if cls.__module__.startswith("loopcore"):
                found.setdefault(cls, each)
                for name in dir(cls):  # also what the collector does not see
                    if not callable(getattr(cls, name, None)):
                        left.append(attempt(getattr, each, name))
            if cls.__module__.startswith("loopcore") or isinstance(each, (list, tuple, dict)):
                left += gc.get_referents(each)
        return found

    def go_on(self) -> None:
        """Run whatever is due."""
        attempt(self.loop.call_soon, self.loop.stop)
        attempt(self.loop.run_forever)


def use_in_use(cls: type, backend: str, names: Iterable[str], note: Note) -> None:
    """Try an object of a loop at work."""
    world = World(backend)
    target = world.objects().get(cls)
    if target is not None:
        for name in names:
            use_attribute(lambda: target, name, note, world.go_on)
        attempt(world.loop.close)
        gc.collect()


def begin_child() -> None:
    """Keep what is tried from doing harm to others, and from lasting."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.kill = os.killpg = signal.pidfd_send_signal = lambda *arguments: None  # type: ignore[assignment]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS_OF_CPU, SECONDS_OF_CPU))
    signal.signal(signal.SIGALRM, interrupt)


def interrupt(number: int, frame: object) -> None:
    """End a wait, and the next one, should that have been in a destructor."""
    signal.setitimer(signal.ITIMER_REAL, WAITS)
    raise InterruptedWait


def run_in_child(work: Callable[[Note], object]) -> tuple[int, str]:
    """Run `work` in a process of its own; return how that ended, and the last that it has noted."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            begin_child()
            note_in = os.fdopen(os.dup(writing), "w")
            work(lambda text: print(ascii(text), file=note_in, flush=True))
        except BaseException as error:
            os.write(writing, f"{error!r}\n".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, errors="replace") as notes:
        last = ""
        for line in notes:
            last = line.rstrip()
    return os.waitpid(pid, 0)[1], last


def survive(label: str, names: list[str], work: Callable[[list[str], Note], object]) -> None:
    """Try one attribute after the other; where the process dies, say so and go on behind it."""
    left = names
    while left:
        status, last = run_in_child(partial(work, left))
        if not os.WIFSIGNALED(status):
            return
        print(f"{label}: {last} ended with {signal.Signals(os.WTERMSIG(status)).name}", flush=True)
        current = [name for name in left if re.match(rf"'(del )?{re.escape(name)}\b", last)]
        left = left[left.index(current[0]) + 1 :] if current else []


def main(kind: str, package: str, backend: str = "") -> None:
    """Try every type, and every function, of a package."""
    logging.disable()
    sys.unraisablehook = lambda unraisable: None
    for module in modules(package):
        for cls in own_types(module):
            label = f"{cls.__module__}.{cls.__name__}"
            if kind == "never-initialised":
                survive(label, names_of(cls), partial(use_never_initialised, cls))
            else:
                survive(label, names_of(cls), partial(use_in_use, cls, backend))
        if kind == "never-initialised":
            for name, function in vars(module).items():
                if inspect.isbuiltin(function) and function.__module__ == module.__name__:
                    survive(f"{module.__name__}.{name}", [name], partial(use_function, function))
    print("survived", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
