"""Facts about the machine that a reader needs to judge a figure. No names of hosts or users."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
import sys
from typing import Any, Final

OF_A_BUILD: Final = ("LOOPCORE_BUILD_CACHE", "LOOPCORE_COMPILE")


def machine_facts() -> dict[str, Any]:
    """CPU, kernel, C library, compiler, load at the start of the run."""
    return {
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "cpus_allowed": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "libc": " ".join(platform.libc_ver()),
        "compiler": _compiler(),
        "load_average": [round(value, 2) for value in os.getloadavg()] if sys.platform != "win32" else [],
        "environment": own_variables(),
    }


def own_variables() -> dict[str, str]:
    """The LOOPCORE_ variables that are set here, and so for the measured processes, except those of a build."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith("LOOPCORE_") and name not in OF_A_BUILD and value
    }


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            for line in info:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def _compiler() -> str:
    try:
        found = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "none"
    return found.stdout.splitlines()[0] if found.stdout else "unknown"
