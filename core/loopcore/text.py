"""Text for messages: untrusted text made safe to show, suggestions for a mistyped name, lines on standard error."""

import sys
from collections.abc import Iterable


def printable(value: object) -> str:
    r"""Return `str(value)` with each character that is not printable escaped, as in a `repr`.

    A program chooses its names, but must not control the terminal or the log. Not printable are control characters,
    and so escape sequences and line ends, bidirectional marks, and lone surrogates: see `str.isprintable`.
    `"\x1b[2J"` becomes `"\\x1b[2J"`. Thread: any.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def did_you_mean(name: str, names: Iterable[str], *, prefix: str = "") -> str:
    """Return `" (did you mean 'epoll'?)"` if one of `names` is like `name`, else an empty string. Thread: any.

    `prefix`, with which all of them begin, does not make them alike.
    """
    import difflib  # for a message only

    name = name.removeprefix(prefix)
    known = [each.removeprefix(prefix) for each in names]
    folded = [each for each in known if each.lower() == name.lower()]
    close = folded or difflib.get_close_matches(name, known, n=1) or difflib.get_close_matches(name.lower(), known, n=1)
    return f" (did you mean {prefix + close[0]!r}?)" if close else ""


def print_on_stderr(text: str) -> None:
    """Print a line on standard error, unless that is closed or cannot be written to. Thread: any."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
