"""The list of guarantees in the page on ports, written from the contract's data.

    python -m tests.docs.guarantees_page

`loopcore/testing/guarantees.toml` says what is checked; docs/reference/backend-port.md shows it.
"""

import re
from pathlib import Path

from loopcore.testing.guarantees import GUARANTEES

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "backend-port.md"
HEADINGS = {"both": "Of both ports", "readiness": "Of the readiness port", "completion": "Of the completion port"}
LIST = re.compile(r"(<!-- guarantees: [^\n]* -->\n).*?(<!-- end of guarantees -->)", re.DOTALL)


def listed() -> str:
    """Return the list, a table for each port."""
    parts = []
    for port, heading in HEADINGS.items():
        parts += ["", f"### {heading}", "", "| name | guarantee | checked by |", "|---|---|---|"]
        for each in GUARANTEES:
            if each.port == port:
                tests = " ".join(f"`{test}`" for test in each.tests)
                parts.append(f"| `{each.name}` | {each.text} | {tests} |")
    return "\n".join([*parts, "", ""])


def rewritten(page: str) -> str:
    """Return `page` with the list as it should be."""
    found = LIST.search(page)
    assert found is not None, "the page has no place for the list"
    return page[: found.end(1)] + listed() + page[found.start(2) :]


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
