"""The loops that can be measured, and a description of each measured one.

A loop is written `[label=]name[:backend][@python]`: `uvloop`, `loopcore:poll`, `pure=loopcore@/venv/bin/python`.
`name` is a module with a `new_event_loop`; `backend` is passed to it, or put into the environment variable that
selects that loop's backend; `python` is the interpreter of the child.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_BACKEND_VARIABLES = {"zloop": "ZLOOP_IO_URING"}
"""Loops whose factory takes no backend but whose environment does: `zloop:completion`."""

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


@dataclass(frozen=True, slots=True)
class LoopSpec:
    """One column of the table: a loop, its backend and the interpreter it runs in.

    With `network_only` it has no micro rows: for a second backend of a loop, which micro rows do not exercise.
    """

    label: str
    name: str
    backend: str | None
    python: str
    network_only: bool = False


def parse_loop(text: str) -> LoopSpec:
    """Parse a loop from the command line. Raises ValueError when it has no name."""
    label, equals, rest = (part.strip() for part in text.partition("="))
    if not equals:
        rest = label
    rest, _, python = rest.partition("@")
    name, _, backend = rest.partition(":")
    if not name or not label:
        raise ValueError(f"no {'label' if name else 'loop name'} in {text!r}; write [label=]name[:backend][@python]")
    where = program_path(python) if python else sys.executable
    return LoopSpec(label if equals else rest, name, backend or None, where)


def program_path(python: str) -> str:
    """The absolute path of an interpreter, because children do not all run in this folder."""
    return os.path.abspath(shutil.which(python) or python)


def loop_factory(name: str, backend: str | None) -> LoopFactory:
    """The constructor of a loop, in this process. Raises ImportError or AttributeError when there is none."""
    if name == "asyncio":
        # On Windows asyncio's own default; elsewhere the class by name, since a policy could be in force.
        return asyncio.new_event_loop if sys.platform == "win32" else asyncio.SelectorEventLoop
    variable = _BACKEND_VARIABLES.get(name)
    if variable is not None and backend is not None:
        os.environ[variable] = backend
        backend = None
    make: Any = importlib.import_module(name).new_event_loop
    if backend is None:
        return make  # type: ignore[no-any-return]
    return lambda: _make_with(make, name, backend)


def _make_with(make: Any, name: str, backend: str) -> asyncio.AbstractEventLoop:
    try:
        return make(backend)  # type: ignore[no-any-return]
    except TypeError:
        raise LookupError(f"{name} has no backends to choose from; write {name!r}") from None


def describe_loop(name: str, backend: str | None) -> dict[str, str]:
    """The facts needed to repeat a figure: versions, compiled or pure, backend."""
    loop = loop_factory(name, backend)()
    try:
        found = getattr(getattr(loop, "backend", None), "name", None)
    finally:
        loop.close()
    facts = {"python": platform.python_version(), "class": f"{type(loop).__module__}.{type(loop).__qualname__}"}
    if name == "asyncio":
        facts["version"] = platform.python_version()
    else:
        try:
            facts["version"] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            facts["version"] = "unknown"
    if name == "loopcore":
        facts["build"] = _build_of("loopcore.kernel.scheduler")
        facts["backend"] = str(found)
    return facts


def _build_of(module: str) -> str:
    """`compiled` or `pure`: the kind of file that the import system would load for the hottest module."""
    spec = importlib.util.find_spec(module)
    origin = "" if spec is None or spec.origin is None else spec.origin
    return "pure" if origin.endswith((".py", ".pyc")) else "compiled"


def missing_reason(error: BaseException) -> str:
    """One line that says why a loop cannot be measured here."""
    if isinstance(error, ModuleNotFoundError):
        return f"not installed (no module named {error.name!r})"
    if isinstance(error, NotImplementedError):
        return "not implemented by this loop"
    if type(error) is LookupError:
        return str(error)
    if isinstance(error, AttributeError) and error.name == "new_event_loop":
        return "not an event loop: it has no new_event_loop"
    return f"{type(error).__name__}: {error}"
