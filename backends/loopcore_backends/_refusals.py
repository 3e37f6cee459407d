"""Refusals: the errors that all readiness backends raise, in the same words."""

import errno

from loopcore.errors import BackendClosedError


def closed(name: str) -> BackendClosedError:
    """Return the error for any call but `close` and `wake` after `close`."""
    return BackendClosedError(f"the {name} backend is closed; its loop has ended, make a new one")


def registered_already(fd: int) -> FileExistsError:
    """Return the error for `register` of a descriptor that is in the table."""
    return FileExistsError(errno.EEXIST, f"descriptor {fd} is registered already; modify it, or unregister it first")


def not_registered(fd: int) -> FileNotFoundError:
    """Return the error for `modify` or `unregister` of a descriptor that is not in the table."""
    return FileNotFoundError(errno.ENOENT, f"descriptor {fd} is not registered")


def not_a_number_of_files(fd: int) -> ValueError:
    """Return the error for a number that no open file can have: negative, or larger than a C int."""
    if fd < 0:
        return ValueError(f"descriptor {fd} is negative: its socket or file was closed before")
    return ValueError(f"descriptor {fd} is larger than any number the system gives to a file")
