"""`loopcore conformance`: the whole contract against a backend that is installed, and a report of it."""

import argparse
from pathlib import Path


def conformance(parser: argparse.ArgumentParser) -> None:
    """Prove a backend: run the whole contract of the port on it.

    The exit code is 0 if every guarantee is kept, 1 if one is broken, 2 if nothing could be run. Needs pytest, and
    hypothesis for a part: pip install "loopcore[testing]".
    """
    parser.add_argument("backend", metavar="NAME", help="the backend, as installed; or MODULE:CLASS")
    parser.add_argument("--only", metavar="NAMES", help="check these guarantees only, separated by commas")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the report here, as JSON")
    parser.add_argument("--badge", metavar="FILE", type=Path, help="write a badge here, as SVG")
    parser.set_defaults(act=act)


def act(arguments: argparse.Namespace) -> int:
    """Run it. pytest is imported only now."""
    from loopcore.errors import UsageError

    try:
        from loopcore.testing.runner import prove
    except ModuleNotFoundError as exc:
        if exc.name != "pytest":
            raise
        raise UsageError('loopcore conformance needs pytest: pip install "loopcore[testing]"') from None
    only = [name.strip() for name in (arguments.only or "").split(",") if name.strip()]
    return prove(arguments.backend, only, arguments.json, arguments.badge)
