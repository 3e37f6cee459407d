"""Forks while another thread holds a lock of a plugin: the child has the lock, but no thread that releases it."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PATIENCE = 30.0

pytestmark = [pytest.mark.loopcore_only, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork(2)")]

needs_otel = pytest.mark.skipif(find_spec("opentelemetry") is None, reason='pip install "loopcore[otel]"')

PROGRAM = """
import asyncio, os, sys, threading, time
import loopcore
if "otel" in sys.argv[1]:
    from loopcore_plugins.metrics import otel

async def main():
    loop = asyncio.get_running_loop()
    (plugin,) = (each for _, each in loop.probes.plugins())
    lock = LOCK
    held, over = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            over.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if child == 0:
        asyncio.sleep(0)  # never awaited, which strict is told
        loop.run_in_executor(None, int)  # which metrics counts
        if "otel" in sys.argv[1]:
            otel._recent()
        os._exit(0)
    over.set()
    holder.join()
    deadline = time.monotonic() + float(sys.argv[2])
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            sys.exit("the child waits for the lock")
        time.sleep(0.01)
    assert ended[1] == 0

loopcore.run(main(), plugins=sys.argv[1])
"""

WATCH_THREAD = "from loopcore_plugins.watchdog.watch_thread import watch_thread; lock = watch_thread()._wake._cond"


@pytest.mark.parametrize(
    ("plugin", "lock"),
    [
        ("trace", "lock = plugin._ring._lock"),
        ("trace", "lock = plugin._threads_lock"),
        ("convoy", "from loopcore_plugins.convoy.switch_interval import SWITCH_INTERVAL as s; lock = s._lock"),
        ("watchdog", WATCH_THREAD),
        ("watchdog:file=live", "from loopcore_plugins.watchdog import health; lock = health._process.lock"),
        ("recorder", WATCH_THREAD),
        ("metrics", "lock = plugin._record.jobs._lock"),
        pytest.param("metrics:otel=yes", "lock = otel._lock", marks=needs_otel),
        ("strict", "from loopcore_plugins.policy import unawaited; lock = unawaited._lock"),
    ],
)
def test_child_does_not_wait_for_a_lock_of_its_parents_threads(plugin: str, lock: str, tmp_path: Path) -> None:
    program = PROGRAM.replace("lock = LOCK", lock)
    command = [sys.executable, "-W", "ignore", "-c", program, plugin, str(PATIENCE / 2)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=2 * PATIENCE)
    assert done.returncode == 0, done.stderr
