"""A cluster of dask in processes of its own: a scheduler and workers with their nannies, on the loop of this run."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
PATIENCE = 60.0
"""Seconds for a process to end."""


@contextmanager
def cluster(folder: Path, workers: int, settings: dict[str, str]) -> Iterator[str]:
    """Run a scheduler and `workers` workers, of one thread each; yield the file that tells clients the address.

    `settings` are environment variables. At the end all are asked to stop, and have to do so without an error.
    """
    address = str(folder / "scheduler.json")
    environment = {**os.environ, **settings}
    launcher = ["-m", "dask"]
    if os.environ["DOWNSTREAM_LOOP"] == "loopcore":
        # What users do, and nothing else: sitecustomize leaves these processes alone.
        del environment["DOWNSTREAM_LOOP"]
        launcher = [str(HERE / "dask_on_loopcore.py")]
    common = ["--scheduler-file", address, "--no-dashboard", "--host", "127.0.0.1"]
    scheduler = ["scheduler", *common, "--port", "0"]
    worker = ["worker", *common, "--nthreads", "1", "--memory-limit", "4GiB", "--local-directory", str(folder)]
    processes = []
    try:
        for command in [scheduler, *[worker] * workers]:
            processes.append(subprocess.Popen([sys.executable, *launcher, *command], env=environment, cwd=folder))
        yield address
    finally:
        codes = [_stop(process) for process in reversed(processes)]
    assert codes == [0] * len(processes)


def _stop(process: subprocess.Popen[bytes]) -> int:
    """Ask a process to stop, and return its exit code; kill it if it does not stop."""
    process.terminate()
    try:
        return process.wait(PATIENCE)
    finally:
        process.kill()
