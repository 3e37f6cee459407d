"""Names of others, fit for a terminal, a log and an export."""

import pytest

from loopcore.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("Tâsk-1 <b>", "Tâsk-1 <b>"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("line\u2028line", r"line\u2028line"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_is_not_printable_is_shown_as_its_escape(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(text).isprintable()


def test_other_objects_are_shown_as_their_text() -> None:
    assert printable(OSError("no\x1b")) == r"no\x1b"
