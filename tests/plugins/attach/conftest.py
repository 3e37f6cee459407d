"""Which of these tests can run here, and a folder without sockets of inspected programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def attaching() -> None:
    """Skip where Python or the kernel does not allow attaching."""
    if sys.platform != "linux" or not hasattr(sys, "remote_exec"):
        pytest.skip("attaching needs Linux and Python 3.14")
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # it has an interpreter now
            sys.remote_exec(process.pid, os.devnull)
        except (PermissionError, RuntimeError) as exc:
            pytest.skip(f"the system does not allow attaching: {exc}")
        finally:
            process.kill()


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let no socket of an inspected program be found."""
    monkeypatch.setenv("LOOPCORE_INSPECT_DIR", str(tmp_path / "sockets"))
