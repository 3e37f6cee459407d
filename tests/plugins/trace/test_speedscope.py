"""speedscope, a viewer of others' making, opens the trace of the chat: in a browser, from npm's package."""

import shutil
import subprocess
from pathlib import Path

import pytest

from loopcore_plugins.trace.reading import find_problems, load, slowest_tasks
from tests.plugins import browser
from tests.plugins.trace.chat import CLIENTS, trace_of_the_chat

SPEEDSCOPE = "speedscope@1.25.0"


def test_the_trace_of_the_chat_with_fifty_clients_is_sound(tmp_path: Path) -> None:
    events = load(trace_of_the_chat(tmp_path, "auto"))
    assert find_problems(events) == []
    connections = [task for task in slowest_tasks(events, 1000) if "(Connection.run)" in task.track]
    assert len(connections) == CLIENTS
    assert slowest_tasks(events, 1)[0].total > 0


@pytest.mark.browser
def test_speedscope_opens_the_trace_of_the_chat(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    assert npm, "this test needs npm on PATH"
    subprocess.run([npm, "install", "--silent", "--prefix", tmp_path, SPEEDSCOPE], check=True, timeout=200)
    site = tmp_path / "node_modules" / "speedscope" / "dist" / "release"
    trace_of_the_chat(site, "auto")
    with browser.served(site) as address:
        page = f"{address}/index.html#profileURL={address}/trace.json"
        document = browser.read_document(page)
        picture = browser.take_picture(page, "trace-in-speedscope.png", tmp_path)
    assert "loop on" in document
    assert picture.stat().st_size > 20_000
