"""A thread that a broken backend leaves behind does not keep the process in which the kit has run."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = '''
from loopcore.testing.conformance import BackendContract
from loopcore_backends.epoll import EpollBackend


class Forgetful(EpollBackend):
    """Loses each fiftieth wake: the thread that asks for the next one waits for ever."""

    wakes = 0

    def wake(self):
        self.wakes += 1
        if self.wakes % 50:
            super().wake()


class TestForgetful(BackendContract):
    backend = "test_forgetful:Forgetful"
    levels = ("port",)
'''


@pytest.mark.skipif(sys.platform != "linux", reason="stands on epoll")
def test_a_thread_of_a_failed_test_does_not_keep_the_process(tmp_path: Path) -> None:
    module = tmp_path / "test_forgetful.py"
    module.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "loopcore_pytest", "--noconftest"]
    ended = subprocess.run(
        [*command, "-c", "/dev/null", "--rootdir", ".", "-k", "no_wake_of_a_busy_thread", str(module)],
        cwd=tmp_path, env={"LOOPCORE_PATIENCE": "0.5", "PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "1 failed" in ended.stdout, ended.stdout + ended.stderr
