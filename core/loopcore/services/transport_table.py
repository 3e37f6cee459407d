"""TransportTable: the transport of each descriptor.

`add_reader`, the sock_* calls and those that take over a socket consult it: they must not use a transport's
descriptor. Its references are weak, as in asyncio's `WeakValueDictionary` for the same purpose, but an entry is removed
when its transport closes, not by a callback of the reference: that callback, and the reference with a key that it
needs, are most of the cost of such a dictionary per connection.

Thread: the loop's own.
"""

import weakref
from collections.abc import Iterator
from typing import Any


class TransportTable:
    """Maps descriptors to live transports. A transport that was destroyed without a close leaves a dead reference."""

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

    def check_free(self, number: int, fd: object) -> None:
        """Raise RuntimeError, which names it as `fd`, if descriptor `number` is an open transport's."""
        transport = self.get(number)
        if transport is not None and not transport.is_closing():
            raise RuntimeError(f"File descriptor {fd!r} is used by transport {transport!r}")

    def discard(self, fd: int, transport: object) -> None:
        """Forget that `fd` was the descriptor of `transport`: it is about to be closed.

        If other code closed it before, the number may belong to another transport by now, whose entry stays.
        """
        reference = self._references.get(fd)
        if reference is not None and reference() is transport:
            del self._references[fd]

    # The interface of asyncio's dictionary, for code that uses it by name.

    def values(self) -> list[Any]:
        """Return the live transports. Thread: any."""
        references = list(self._references.values())  # one step in C: the loop's thread may add to it meanwhile
        found = [reference() for reference in references]
        return [transport for transport in found if transport is not None]

    def __setitem__(self, fd: int, transport: object) -> None:
        self._references[fd] = weakref.ref(transport)

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
