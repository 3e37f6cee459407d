"""The examples are run as a user would: as processes, over sockets, with the exit code and every line looked at.

`backend_name` is the root conftest's, but for a whole module, so that tests can share a server. "asyncio" is the
oracle: plain `python FILE`, without loopcore.
"""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent.parent / "examples" / "chat"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture(scope="module")
def backend_name(request: pytest.FixtureRequest) -> str:
    """The backend that the programs run on, or "asyncio"."""
    name: str = request.param
    return name
