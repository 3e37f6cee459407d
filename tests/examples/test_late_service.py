"""A request that is late in a FastAPI service: `loopcore why` names the cause from the dump.

Those causes that need no particular speed of the machine; the example has more. Skipped without the extra `cookbook`.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from programs import EXAMPLES, PATIENCE, Child

from tests.plugins import browser

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="schedstat, SIGUSR2")


@pytest.mark.parametrize("cause", ["blocking-call", "executor", "plain-functions", "lock", "killed", "crashed"])
def test_the_cause_is_named(cause: str) -> None:
    for package in ("fastapi", "uvicorn"):
        pytest.importorskip(package, reason='pip install -e ".[cookbook]"')
    with Child([sys.executable, str(EXAMPLES / "late_service" / "driver.py"), cause], "auto") as driver:
        assert driver.process.wait(2 * PATIENCE) == 0, driver.end().out


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A dump after a request that was late for a lock."""
    for package in ("fastapi", "uvicorn"):
        pytest.importorskip(package, reason='pip install -e ".[cookbook]"')
    command = [sys.executable, str(EXAMPLES / "late_service" / "driver.py"), "lock", "--keep", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, timeout=2 * PATIENCE)
    return tmp_path / "lock" / "dump.rec"


def test_picture_of_the_answer_in_a_terminal(dump: Path, tmp_path: Path) -> None:
    pytest.importorskip("rich", reason='pip install -e ".[top]"')
    from tests.plugins.inspect.terminal import print_in_terminal, save_picture

    width = 100
    printed = print_in_terminal([sys.executable, "-m", "loopcore", "why", str(dump), "--slowest", "1"], width)
    screen = b"$ loopcore why dump.rec --slowest 1\r\n" + printed.rstrip()
    picture = Path(os.environ.get("LOOPCORE_SCREENSHOTS") or tmp_path) / "why-terminal.svg"
    save_picture(screen, picture, (width, screen.count(b"\n") + 1), title="loopcore why")
    assert re.search(
        r"why: waiting for a lock [^%]*, sleeping until a timer in refresh ", " ".join(printed.decode().split())
    )
    assert max(map(len, printed.decode().splitlines())) <= width
    assert "sleeping" in picture.read_text(encoding="utf-8")


@pytest.mark.browser
def test_picture_of_the_page(dump: Path, tmp_path: Path) -> None:
    page = tmp_path / "why.html"
    command = [sys.executable, "-m", "loopcore", "why", str(dump), "--slowest", "1", "--page", str(page)]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)
    assert "waiting for a lock in price" in browser.read_document(page.as_uri())
    assert browser.take_picture(page.as_uri(), "why-page.png", tmp_path, size=(1000, 400)).stat().st_size > 10_000
