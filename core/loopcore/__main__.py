"""`python -m loopcore` is the command `loopcore`."""

import sys

from loopcore.cli import main

if __name__ == "__main__":
    sys.exit(main())
