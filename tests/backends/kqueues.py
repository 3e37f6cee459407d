"""Which kqueue tests run on where the platform has none: LOOPCORE_TEST_KQUEUE says.

    LOOPCORE_TEST_KQUEUE=fake LOOPCORE_BACKEND=kqueue python -m pytest tests/backends tests/transports

- `fake`, or `fake-freebsd`, `fake-macos`, `fake-openbsd`, `fake-netbsd`: our own simulation, with that system's ways.
- a path: the shared object of libkqueue, an independent implementation over epoll; for `tests/backends` only. What it
  does otherwise than the BSDs is expected to fail; `libkqueue.toml` says what and why.

`install` puts it into `select`, in the process of the tests and, by PYTHONPATH and `inject/sitecustomize.py`, in each
Python that a test starts. `selectors`, and so asyncio's own loop, do not see it: they have been imported before. On a
system with a kqueue of its own leave the variable unset.
"""

import os
import select
import selectors
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pytest

VARIABLE: Final = "LOOPCORE_TEST_KQUEUE"
ROOT: Final = Path(__file__).parents[2]
DEVIATIONS: Final = Path(__file__).with_name("libkqueue.toml")
INJECT: Final = Path(__file__).with_name("inject")


def names_of(spec: str) -> Mapping[str, Any]:
    """Return what `select` is to have: `kqueue`, `kevent`, the `KQ_` constants. Raises ValueError for a wrong word."""
    kind, _, system = spec.partition("-")
    if kind == "fake":
        from tests.backends.fake_kqueue.dialects import DIALECTS
        from tests.backends.fake_kqueue.queue import names

        if (system or "freebsd") in DIALECTS:
            return names(DIALECTS[system or "freebsd"])
        raise ValueError(f"{VARIABLE}={spec}: there are {', '.join(f'fake-{name}' for name in DIALECTS)}")
    if os.sep in spec:
        from tests.backends.libkqueue import load

        return load(spec)
    raise ValueError(f"{VARIABLE}={spec} is neither 'fake' nor the path of libkqueue's shared object")


def library() -> str | None:
    """Return the path of libkqueue if tests are to use it."""
    spec = os.environ.get(VARIABLE, "")
    return spec if os.sep in spec else None


def deviations(items: Iterable["pytest.Item"]) -> Iterator[tuple["pytest.Item", str, bool]]:
    """Return the tests that libkqueue is expected to fail, why, and whether to try."""
    known = tomllib.loads(DEVIATIONS.read_text())["deviation"]
    for item in items:
        for entry in known:
            if any(fnmatchcase(item.name, pattern) for pattern in entry["tests"]):
                yield item, entry["reason"], entry.get("run", True)


def install() -> None:
    """Give this process, and the Pythons that it starts, the kqueue that the environment asks for, if any."""
    spec = os.environ.get(VARIABLE)
    if not spec:
        return
    if hasattr(selectors, "KqueueSelector"):
        raise ValueError(f"{VARIABLE} is set, but this platform has a kqueue of its own; unset it")
    for name, thing in names_of(spec).items():
        setattr(select, name, thing)
    if library() and hasattr(os, "eventfd"):
        del os.eventfd  # libkqueue's READ refuses it; so the waker is the one that the BSDs have
    places = [str(INJECT), str(ROOT)]
    before = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place and place not in places]
    os.environ["PYTHONPATH"] = os.pathsep.join(places + before)
