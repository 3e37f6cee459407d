"""`python -m loopcore_plugins.trace FILE`: check a trace, and list the tasks that took longest."""

import argparse
import io
import sys
from pathlib import Path

from loopcore.errors import UsageError
from loopcore.text import printable
from loopcore_plugins.trace.reading import find_problems, load, slowest_tasks

SHOWN = 20


def main(arguments: list[str] | None = None) -> int:
    """Return 0 for a sound trace, 1 for one with problems, 2 if the file cannot be read as a trace."""
    parser = argparse.ArgumentParser(prog="python -m loopcore_plugins.trace", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--slowest", type=int, default=10, metavar="N", help="how many tasks to list (default: 10)")
    options = parser.parse_args(arguments)
    try:
        events = load(options.file)
    except (OSError, UsageError) as exc:
        sys.stderr.write(f"{printable(exc)}\n")
        return 2
    problems = find_problems(events)
    lines = [f"{len(events)} events, {len(problems)} problems", *problems[:SHOWN]]
    lines.append(f"{'total ms':>10} {'longest ms':>10} {'steps':>7}  task")
    for task in slowest_tasks(events, options.slowest):
        lines.append(f"{task.total / 1000:>10.3f} {task.longest / 1000:>10.3f} {task.steps:>7}  {task.track}")
    sys.stdout.write("\n".join(map(printable, lines)) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    if isinstance(sys.stdout, io.TextIOWrapper):  # the terminal may be unable to encode a program's names
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(main())
