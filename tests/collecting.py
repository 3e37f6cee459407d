"""The garbage collector at its worst: LOOPCORE_TEST_COLLECTOR says where and when it runs during tests.

- `thread`: in another thread, all the time. Finalizers run there, while the loop waits, harvests or runs callbacks.
- `threshold`: in the thread of the test, after every Nth allocation, N being a small number that is each test's own.
  CPython 3.11 collects inside the allocation, wherever in compiled code that is; since 3.12 it does so between two
  instructions of Python.

Without the variable nothing is changed. A collection by another thread makes `gc.collect` return at once without
having collected; with `thread`, it waits for that one first, so that a test which collects means it.
"""

import gc
import os
import sys
import threading
import zlib
from collections.abc import Iterator

import pytest

VARIABLE = "LOOPCORE_TEST_COLLECTOR"
MODES = ("thread", "threshold")
PAUSE = 0.0005
"""Seconds between two collections of the thread."""
SWITCH = 0.0005
"""Seconds after which a thread that runs gives way to another; by default ten times that."""
LARGEST = 7
"""The largest N."""
UNSUITED = dict.fromkeys(
    ("test_forked_past_hooks.py", "test_forked.py"), "a process with threads cannot be forked past Python's hooks"
)
"""Tests that another thread makes impossible, by file."""


def is_on() -> bool:
    """Tell whether tests run with another collector than usual."""
    return bool(os.environ.get(VARIABLE))


class CollectingThread(threading.Thread):
    """Collects until it is told to end."""

    def __init__(self) -> None:
        super().__init__(name="collector", daemon=True)
        self.once = gc.collect
        self.collecting = threading.RLock()
        self.ending = threading.Event()
        # A child that is forked during a collection would never collect again.
        os.register_at_fork(
            before=self.collecting.acquire,
            after_in_parent=self.collecting.release,
            after_in_child=self.collecting.release,
        )

    def run(self) -> None:
        while not self.ending.wait(PAUSE):
            self.collect()

    def collect(self, generation: int = 2) -> int:
        with self.collecting:
            return self.once(generation)

    def end(self) -> None:
        self.ending.set()
        self.join()


class InAThread:
    """pytest's plugin for `thread`."""

    def __init__(self) -> None:
        self.thread = CollectingThread()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.path.name in UNSUITED:
                item.add_marker(pytest.mark.skip(reason=UNSUITED[item.path.name]))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        gc.collect = self.thread.collect  # type: ignore[assignment]
        sys.setswitchinterval(SWITCH)
        self.thread.start()

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self.thread.end()
        gc.collect = self.thread.once


class AtThresholds:
    """pytest's plugin for `threshold`."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        usual = gc.get_threshold()
        # Hypothesis measures collections in a callback, where the exception of a test's signal handler would be lost.
        gc.callbacks[:] = [each for each in gc.callbacks if not each.__module__.startswith("hypothesis.")]
        # Not hash(), which differs from process to process.
        gc.set_threshold(1 + zlib.crc32(item.nodeid.encode()) % LARGEST, 5, 5)
        try:
            return (yield)
        finally:
            gc.set_threshold(*usual)


def install(config: pytest.Config) -> None:
    """Do what LOOPCORE_TEST_COLLECTOR asks for. Raises UsageError for a word that means nothing."""
    mode = os.environ.get(VARIABLE, "")
    if not mode:
        return
    if mode not in MODES:
        raise pytest.UsageError(f"{VARIABLE}={mode!r} is not one of {', '.join(MODES)}")
    if mode == "thread":
        # Since 3.12 Python warns of each fork in a process that has threads.
        config.addinivalue_line("filterwarnings", "ignore:.*multi-threaded, use of fork:DeprecationWarning")
        config.pluginmanager.register(InAThread())
    else:
        config.pluginmanager.register(AtThresholds())
