"""The list of broken backends in docs/evidence/conformance.md, written from the mutants themselves.

python -m tests.docs.mutants_page
"""

import inspect
import re
from pathlib import Path

from tests.testing.mutants.contracts import mutants

PAGE = Path(__file__).parents[2] / "docs" / "evidence" / "conformance.md"

LIST = re.compile(r"(<!-- mutants: [^\n]* -->\n).*?(<!-- end of mutants -->)", re.DOTALL)


def rewritten(page: str) -> str:
    """Return `page` with the list as it should be."""
    rows = [
        f"| `{name}` | {' '.join((inspect.getdoc(mutant) or '').split())} | `{vars(mutant)['breaks']}` |"
        for name, mutant in mutants().items()
    ]
    table = "\n".join(
        ["", "| broken backend | what is wrong with it | guarantee that catches it |", "|---|---|---|", *rows]
    )
    found = LIST.search(page)
    assert found is not None, "the page has no place for the list"
    return page[: found.end(1)] + table + "\n\n" + page[found.start(2) :]


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
