"""Micro workload: programs that are started."""

from __future__ import annotations

import asyncio
import shutil
import sys

from loopcore_bench.meter import Meter
from loopcore_bench.work import inside


@inside("process", "one program that does nothing started and waited for", 200)
async def process(meter: Meter, count: int) -> None:
    """No pipes, one at a time. The CPU time is that of the loop's process: the program's own is not in it."""
    nothing = shutil.which("true")
    words = (nothing,) if nothing else (sys.executable, "-S", "-c", "")
    quiet = asyncio.subprocess.DEVNULL
    with meter:
        for _ in range(count):
            started = await asyncio.create_subprocess_exec(*words, stdin=quiet, stdout=quiet)
            status = await started.wait()
            assert status == 0
