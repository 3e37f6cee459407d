"""What the loop takes over from the scheduler; the rest of its surface is looked at in tests/compatibility."""

import asyncio
import subprocess
import sys

import loopcore


def test_no_method_overrides_the_scheduler_by_accident() -> None:
    shared = {name for name in vars(loopcore.EventLoop) if hasattr(loopcore.EventLoop.__mro__[1], name)}
    plumbing = {name for name in shared if name.startswith("__")}
    assert shared - plumbing == {"set_debug", "call_exception_handler"}


ADDED = {
    *("call_immediate", "next_tick", "queue_microtask", "add_phase_callback"),
    *("tick", "poll_events", "process_events", "process_ready", "flush"),
    *("poll_skip_ticks", "poll_skip_time", "flush_limit", "receive_limit"),
    *("backend", "clock", "probes", "counters", "meter", "is_waiting", "unfinished_jobs"),
}
"""Attributes that asyncio's loops do not have. docs/reference/api.md describes each; a test compares."""


def test_nothing_looks_public_that_is_not() -> None:
    asyncio_loop = asyncio.new_event_loop()
    loop = loopcore.new_event_loop()
    try:
        added = {name for name in dir(loop) if not name.startswith("_")} - set(dir(asyncio_loop))
    finally:
        asyncio_loop.close()
        loop.close()
    assert added == ADDED


def test_dir_lists_the_public_names_that_are_imported_on_first_use() -> None:
    program = "import loopcore; print(*sorted(set(loopcore.__all__) - set(dir(loopcore))))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
