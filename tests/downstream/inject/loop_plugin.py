"""The pytest plugin of a downstream run: leaves out what is to be left out, and reports which loops ran.

Loaded with `-p loop_plugin`. The loop itself is put in place before, by sitecustomize. A run in which the chosen loop
did not run fails, however many tests passed.
"""

import gc
import importlib
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from _pytest.junitxml import mangle_test_address

RECORD = Path(os.environ["DOWNSTREAM_RECORD"])
LOOP = os.environ["DOWNSTREAM_LOOP"]


def test_id(nodeid: str) -> str:
    """Return the id that the test has in JUnit's XML, `classname::name`, which results and lists go by."""
    *place, name = mangle_test_address(nodeid)
    return f"{'.'.join(place)}::{name}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what the project's list names, and write the names down for run.py."""
    patterns = json.loads(os.environ["DOWNSTREAM_DESELECT"])
    wanted = re.compile("|".join(patterns) or "(?!)")
    left_out = [item for item in items if wanted.fullmatch(test_id(item.nodeid))]
    config.hook.pytest_deselected(items=left_out)
    chosen = set(left_out)
    items[:] = [item for item in items if item not in chosen]
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        names = [test_id(item.nodeid) for item in left_out]
        RECORD.with_name("deselected.json").write_text(json.dumps(names), encoding="utf-8")


def pytest_collection_finish() -> None:
    """Where DOWNSTREAM_FREEZE asks for it, keep what exists by now out of later collections.

    For suites that collect garbage after every test. Not for all: hypothesis looks for referrers among the others.
    """
    if "DOWNSTREAM_FREEZE" in os.environ:
        gc.collect()
        gc.freeze()


BLOCKING = {
    "os.read": ("loopcore/endpoints/process.py", {"spawn"}),
    "os.sendfile": ("loopcore/services/sendfile.py", {"step"}),
    "os.stat": ("loopcore/endpoints/unix.py", {"remove_stale", "_removal_of", "remove"}),
    "os.unlink": ("loopcore/endpoints/unix.py", {"remove"}),
}
"""Where loopcore blocks as asyncio does, for blockbuster, which suites use to find calls that block the loop.

What asyncio itself blocks in, it lists by file and function: where a process is started or a Unix socket removed, and
sendfile, which does not block on a socket that does not.
"""


def pytest_configure() -> None:
    """Have blockbuster pass over what it passes over in asyncio."""
    try:
        blockbuster = importlib.import_module("blockbuster")
    except ImportError:
        return
    original = blockbuster.BlockBuster.__init__

    def init(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        for name, (file, functions) in BLOCKING.items():
            self.functions[name].can_block_in(file, functions)

    blockbuster.BlockBuster.__init__ = init


def loops_that_ran() -> Counter[str]:
    """Return how many loops of each family have run so far, in all processes of this run."""
    lines = RECORD.read_text(encoding="ascii").splitlines() if RECORD.exists() else []
    return Counter(line.split()[0] for line in lines)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if the chosen loop never ran."""
    if not hasattr(session.config, "workerinput") and not loops_that_ran()[LOOP]:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which loops ran, and complain if the chosen one did not."""
    found = loops_that_ran()
    ran = ", ".join(f"{count} of {name}" for name, count in found.most_common()) or "none"
    terminalreporter.section(f"loops that ran: {ran}")
    if not found[LOOP]:
        terminalreporter.line(f"ERROR: no loop of {LOOP} ran: this run says nothing about it", red=True)
