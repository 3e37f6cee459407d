"""TransportTable: which transport has which descriptor.

`add_reader` and the sock_* calls ask, because they must not meddle with a transport's. Weak, like asyncio's
`WeakValueDictionary` of the same use, but an entry goes when its transport closes, not by a callback of the reference:
that, and the reference with a key that it needs, are most of what such a dictionary costs a connection.

Thread: the loop's own.
"""

import weakref
from collections.abc import Iterator
from typing import Any

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.cpython.weakref import PyWeakref_NewRef


class TransportTable:
    """From descriptors to transports that live. What is left of one that nobody closed is an empty entry."""

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Any]] = {}

    def get(self, fd: int, default: Any = None) -> Any:
        """Return the transport of `fd`, or `default`."""
        reference = self._references.get(fd)
        if reference is None:
            return default
        transport = reference()
        return default if transport is None else transport

    def discard(self, fd: int, transport: Any) -> None:
        """Forget that `fd` was the descriptor of `transport`: it is about to be closed.

        If somebody else has closed it before, the number may be another transport's by now, and stays that one's.
        """
        reference = self._references.get(fd)
        if reference is not None and reference() is transport:
            del self._references[fd]

    # As in the dictionary that asyncio has, for who has learnt its name.

    def values(self) -> list[Any]:
        """Return the transports that live. Thread: any."""
        references = list(self._references.values())  # one step in C: the loop's thread may add to it meanwhile
        found = [reference() for reference in references]
        return [transport for transport in found if transport is not None]

    def __setitem__(self, fd: int, transport: Any) -> None:
        reference: Any = PyWeakref_NewRef(transport, None) if cython.compiled else weakref.ref(transport)
        self._references[fd] = reference

    def __getitem__(self, fd: int) -> Any:
        transport = self.get(fd)
        if transport is None:
            raise KeyError(fd)
        return transport

    def __delitem__(self, fd: int) -> None:
        del self._references[fd]

    def __contains__(self, fd: object) -> bool:
        return self.get(fd) is not None  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[int]:
        return iter([fd for fd in self._references if fd in self])

    def __len__(self) -> int:
        return len(list(iter(self)))
