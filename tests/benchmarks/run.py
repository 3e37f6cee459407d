"""Compare event loops: `python tests/benchmarks/run.py --loops asyncio,uvloop,loopcore --work sleep0,tcp-1k-10`."""

import sys

from loopbench.cli import main

if __name__ == "__main__":
    sys.exit(main())
