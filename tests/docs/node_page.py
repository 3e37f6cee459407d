"""Writes the table of docs/reference/node-order.md: what Node and loopcore write for each program, side by side.

python -m tests.docs.node_page, with Node on PATH.
"""

import re
from pathlib import Path

import loopcore
from tests.unit.kernel.node_guide import PROGRAMS, run_in_node, run_on

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "node-order.md"
MARK = "<!-- written by tests/docs/node_page.py -->\n"
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| \d+ \| (.*?) \| (.*?) \|$", re.MULTILINE)


def recorded() -> dict[str, list[str]]:
    """What Node wrote, by title, as the page has it."""
    written = PAGE.read_text(encoding="utf-8").partition(MARK)[2]
    return {title: [node for node, _ in ROW.findall(body)] for title, body in SECTION.findall(written)}


def tables() -> str:
    """Run all programs in both, and return the tables."""
    parts = []
    for program in PROGRAMS:
        loop = loopcore.new_event_loop()
        try:
            ours = run_on(loop, program)
        finally:
            loop.close()
        rows = zip(run_in_node(program), ours, strict=True)
        lines = [f"| {number} | {theirs} | {own} |" for number, (theirs, own) in enumerate(rows, 1)]
        parts.append("\n".join([f"## {program.title}\n", "| | Node | loopcore |", "|---|---|---|", *lines]) + "\n")
    return "\n".join(parts)


def main() -> None:
    head = PAGE.read_text(encoding="utf-8").partition(MARK)[0]
    PAGE.write_text(head + MARK + "\n" + tables(), encoding="utf-8")


if __name__ == "__main__":
    main()
