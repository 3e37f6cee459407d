"""dask's cluster of one program runs on loopcore: scheduler, workers, nannies, client. Skipped without dask."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason='pip install -e ".[cookbook]"')

PROGRAMS = Path(__file__).parents[1] / "downstream" / "programs"


@pytest.mark.parametrize("streams", ["tornado", "asyncio"])
def test_local_cluster_runs_on_loopcore(streams: str, tmp_path: Path) -> None:
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    settings = {"PYTHONPATH": paths, "DASK_DISTRIBUTED__COMM__TCP__BACKEND": streams}
    ended = subprocess.run(
        [sys.executable, PROGRAMS / "dask_local_cluster.py"],
        env={**os.environ, **settings},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
