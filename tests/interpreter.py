"""What tests must know of the interpreter they run on: whether it counts references, and what it cannot do.

CPython frees an object with its last reference. PyPy frees it at some later collection, and what has a finalizer
in the collection after that one. So on PyPy `gc.collect` is made to go on until finalizers have run: a test that drops
something and collects means just that. What a test can only see where references are counted, or where the
interpreter has more than the language promises, is listed in pypy.toml, each with its reason.
"""

import fnmatch
import gc
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from loopcore.kernel import scheduler

INTERPRETED = str(scheduler.__file__).endswith(".py")
"""Whether this is the pure build."""
IS_PYPY = sys.implementation.name == "pypy"
LIST = Path(__file__).with_name("pypy.toml")
ROUNDS = 3
"""Collections until a finalizer has run whose object was kept by one of another object that has a finalizer."""


def install() -> None:
    """Have `gc.collect` run finalizers too where it leaves them for later."""
    if not IS_PYPY:
        return
    once = gc.collect

    def collect(generation: int = 2) -> int:
        for _ in range(ROUNDS):
            once()
        return 0

    gc.collect = collect


def freeze() -> None:
    """Collect, and spare later collections what is alive now, where the interpreter has a list for that."""
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()


def read_list(path: Path = LIST) -> list[tuple[str, str]]:
    """Return pattern and reason of each entry. Raises ValueError for one without a reason."""
    found = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("skip", ()):
        reason = " ".join(entry["reason"].split())
        if not reason or not entry["tests"]:
            raise ValueError(f"an entry needs tests and a reason: {entry}")
        found += [(pattern, reason) for pattern in entry["tests"]]
    return found


def skipped(items: Iterable[pytest.Item]) -> Iterator[tuple[pytest.Item, str]]:
    """Return those of `items` that this interpreter cannot pass, and why."""
    if not IS_PYPY:
        return
    listed = read_list()
    for item in items:
        for pattern, reason in listed:
            # A name stands for all its parameters; `[` is no wildcard here.
            if fnmatch.fnmatchcase(item.nodeid, pattern) or item.nodeid.split("[")[0] == pattern:
                yield item, reason
                break
