"""A request that is late in a FastAPI service: `loopcore why` names the cause from the dump.

Those causes that need no particular speed of the machine; the example has more. Skipped without the extra `cookbook`.
"""

import sys

import pytest
from programs import EXAMPLES, PATIENCE, Child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="schedstat, SIGUSR2")


@pytest.mark.parametrize("cause", ["blocking-call", "executor", "plain-functions", "lock", "killed", "crashed"])
def test_the_cause_is_named(cause: str) -> None:
    for package in ("fastapi", "uvicorn"):
        pytest.importorskip(package, reason='pip install -e ".[cookbook]"')
    with Child([sys.executable, str(EXAMPLES / "late_service" / "driver.py"), cause], "auto") as driver:
        assert driver.process.wait(2 * PATIENCE) == 0, driver.end().out
