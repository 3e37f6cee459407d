"""The folder of the sockets, for the tests of inspect."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugins.inspect.processes import socket_folder


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of its own for the sockets; programs and commands of the test find it in their environment."""
    with socket_folder() as path:
        monkeypatch.setenv("LOOPCORE_INSPECT_DIR", str(path))
        yield path
