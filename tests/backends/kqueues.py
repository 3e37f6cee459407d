"""Which kqueue tests run on where the platform has none: LOOPCORE_TEST_KQUEUE says.

    LOOPCORE_TEST_KQUEUE=fake LOOPCORE_BACKEND=kqueue python -m pytest tests/backends tests/transports

- `fake`, or `fake-freebsd`, `fake-macos`, `fake-openbsd`, `fake-netbsd`: our own simulation, with that system's ways.
- a path: the shared object of libkqueue, an independent implementation over epoll. What it does otherwise than the
  BSDs is expected to fail; `libkqueue.toml` says what and why.

`install` puts it into `select`, in the process of the tests and, by PYTHONPATH and `inject/sitecustomize.py`, in each
Python that a test starts. `selectors`, and so asyncio's own loop, do not see it: they have been imported before. On a
system with a kqueue of its own leave the variable unset.
"""

import os
import select
import selectors
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

VARIABLE: Final = "LOOPCORE_TEST_KQUEUE"
ROOT: Final = Path(__file__).parents[2]
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


def install() -> None:
    """Give this process, and the Pythons that it starts, the kqueue that the environment asks for, if any."""
    spec = os.environ.get(VARIABLE)
    if not spec:
        return
    if hasattr(selectors, "KqueueSelector"):
        raise ValueError(f"{VARIABLE} is set, but this platform has a kqueue of its own; unset it")
    for name, thing in names_of(spec).items():
        setattr(select, name, thing)
    places = [str(INJECT), str(ROOT)]
    before = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place and place not in places]
    os.environ["PYTHONPATH"] = os.pathsep.join(places + before)
