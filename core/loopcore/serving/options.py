"""Options of a server: what its defaults say of their values, which come from the command line as literals or text."""

from loopcore.errors import UsageError


def check_value(server: str, name: str, value: object, default: object) -> None:
    """Raise UsageError if `default` is a number, or true or false, and `value` is neither; it may be None."""
    if isinstance(default, int | float) and not (value is None or isinstance(value, int | float)):
        kind = "true or false" if isinstance(default, bool) else "a number"
        raise UsageError(f"{server}'s option {name!r} must be {kind}, not {value!r}")
