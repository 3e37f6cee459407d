"""Untrusted text made safe to show: a program chooses its names, but must not control the terminal or the log."""


def printable(value: object) -> str:
    r"""Return `str(value)` with each character that is not printable escaped, as in a `repr`.

    Not printable are control characters, and so escape sequences and line ends, bidirectional marks, and lone
    surrogates: see `str.isprintable`. `"\x1b[2J"` becomes `"\\x1b[2J"`. Thread: any.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
