"""Compare event loops: `python tests/benchmarks/run.py --loops asyncio,uvloop,loopcore --work sleep0,tcp-1k-10`."""

import sys
from pathlib import Path

if __name__ == "__main__":  # the harness of this tree, before an installed one
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / "core"), str(Path(__file__).resolve().parents[2])]

from tests.benchmarks.harness.cli import main

if __name__ == "__main__":
    sys.exit(main())
