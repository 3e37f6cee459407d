"""`python -m loopcore_bench`: the whole harness; `loopcore bench` is its short form."""

import sys

from loopcore_bench.cli import main

if __name__ == "__main__":
    sys.exit(main())
