"""Text from elsewhere, fit to be shown: names belong to a program, the terminal and the log to whoever reads them."""


def printable(value: object) -> str:
    r"""Return `str(value)` with the escape, as in a `repr`, in place of each character that is not printable.

    Control characters and with them escape sequences, ends of lines, marks that turn the direction of writing, and lone
    surrogates are not: see `str.isprintable`. `"\x1b[2J"` becomes `"\\x1b[2J"`. Thread: any.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
