"""The sidebar of the manual: groups in the order in which a reader needs them, and short enough to read."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
TOCTREE = re.compile(r"^```\{toctree\}\n:caption: ([^\n]+)\n(?::[^\n]*\n)*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GROUPS = dict(TOCTREE.findall((DOCS / "index.md").read_text(encoding="utf-8")))
ENTRIES = [entry for entries in GROUPS.values() for entry in entries.split()]


def test_the_groups_are_in_the_order_of_a_readers_needs() -> None:
    assert list(GROUPS) == ["Get started", "How-to", "Operate", "Reference", "Understand", "Project evidence"]


def test_the_sidebar_has_fewer_than_fifty_entries_each_a_page_and_once() -> None:
    assert len(ENTRIES) < 50
    assert len(set(ENTRIES)) == len(ENTRIES)
    assert [entry for entry in ENTRIES if not (DOCS / f"{entry}.md").is_file()] == []


def test_decisions_and_evidence_are_an_entry_each() -> None:
    assert GROUPS["Project evidence"].split() == ["evidence/index", "adr/index"]
    assert [entry for entry in ENTRIES if entry.startswith(("adr/", "evidence/"))] == ["evidence/index", "adr/index"]
