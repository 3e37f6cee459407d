"""Making the backend under test, here and in processes that a test starts.

A backend is given as its installed name, as `module:class`, or as the class itself.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from loopcore.ports.completion import Backend
from loopcore.selection.catalogue import path_of
from loopcore.selection.discovery import choose_backend

PROLOGUE = """
import json, sys
from loopcore.testing.making import factory_of

port = factory_of(sys.argv[1])(**json.loads(sys.argv[2]))
"""

Named: TypeAlias = str | Callable[..., Backend]
"""The installed name of a backend, `module:class`, or the class."""


def factory_of(backend: Named | None) -> Any:
    """Return the backend's factory. Raises as `choose_backend` does for a name, ImportError for a path."""
    if not isinstance(backend, str):
        return backend
    module, colon, path = backend.partition(":")
    if not colon:
        return choose_backend(backend).factory
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found


def run_beside(backend: Named, options: Mapping[str, Any], program: str, prelude: str = "") -> None:
    """Run `program` in a separate process, where `port` is a new backend. Fails if that fails or writes to stderr."""
    spec = backend if isinstance(backend, str) else path_of(backend)
    strict = ["-W", "error", "-W", "ignore::DeprecationWarning"]
    command = [sys.executable, *strict, "-c", prelude + PROLOGUE + program, spec, json.dumps(dict(options))]
    # PYTHONPATH first: it may be set for modules that must be imported before all others (a sitecustomize).
    paths = os.pathsep.join([*os.environ.get("PYTHONPATH", "").split(os.pathsep), *sys.path]).strip(os.pathsep)
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "PYTHONPATH": paths}
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stderr
