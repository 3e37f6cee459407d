"""`python -m loopbench`, with tests/benchmarks on the path."""

import sys

from loopbench.cli import main

sys.exit(main())
