"""The journal of a simulated disk: changes of directories that are not durable yet.

A creation, a rename or an unlink stays a step of the journal until fsync(2) of its directory. A power cut loses the
last steps for one name, independently of the steps for other names. So a rename is atomic, but it may become durable
before the content of the file does, as POSIX allows.
"""

from collections.abc import Iterator
from typing import NamedTuple

from loopcore_backends.sim.files.inodes import Directory, Inode


class Change(NamedTuple):
    """A name of a directory that was given to another inode; `old` is the one before."""

    directory: Directory
    name: str
    old: Inode | None


class Step(NamedTuple):
    """One atomic operation."""

    changes: tuple[Change, ...]
    label: str
    moves_directory: bool

    def names(self) -> Iterator[tuple[int, str]]:
        """Return what the step depends on: the names that it changes."""
        for change in self.changes:
            yield id(change.directory), change.name
        if self.moves_directory:
            yield 0, ""  # reordered moves of directories could make a directory its own parent


class Journal:
    """Steps in the order in which they were made."""

    def __init__(self) -> None:
        self._steps: list[Step] = []

    def append(self, step: Step) -> None:
        """Add a step."""
        self._steps.append(step)

    def clear(self) -> None:
        """Make every step durable, or forget those that a power cut has not lost."""
        self._steps.clear()

    def sync(self, directory: Directory) -> None:
        """Make the entries of a directory durable, with the earlier steps that they depend on."""
        keys: set[tuple[int, str]] = set()
        left: list[Step] = []
        for step in reversed(self._steps):
            if not keys.isdisjoint(step.names()) or any(change.directory is directory for change in step.changes):
                keys.update(step.names())
            else:
                left.append(step)
        self._steps = left[::-1]

    def independent(self) -> list[list[Step]]:
        """Return the journal in groups, each in order, that share no name: a union-find over the names."""
        above = list(range(len(self._steps)))
        last: dict[tuple[int, str], int] = {}

        def top(i: int) -> int:
            while above[i] != i:
                above[i] = i = above[above[i]]
            return i

        for i, step in enumerate(self._steps):
            for key in step.names():
                above[top(last.get(key, i))] = i
                last[key] = i
        groups: dict[int, list[Step]] = {}
        for i, step in enumerate(self._steps):
            groups.setdefault(top(i), []).append(step)
        return [*groups.values()]
