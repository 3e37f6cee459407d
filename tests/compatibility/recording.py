"""What a test calls: the entries of the surface, recorded while it runs.

A test marked `covers` or `differs` fails if it does not call what the mark names, with the parameters named. The
methods are replaced on the classes, asyncio's and loopcore's, so calls through `asyncio.open_connection` count too.
Compiled classes cannot be changed: there nothing is recorded, and the mark is believed. So it is with attributes.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tests.compatibility.surface import NEWER, OPERATORS, OWNERS, may_be_left_out

Seen = set[tuple[str, str]]


@contextlib.contextmanager
def recording(methods: Iterable[str]) -> Iterator[Callable[[Iterable[tuple[str, str]]], list[str]]]:
    """Record the calls of `methods`; yield a function that tells which of the given entries were not called."""
    seen: Seen = set()
    unseen_of: set[str] = set()
    """The methods that could not be watched everywhere."""
    with contextlib.ExitStack() as stack:
        for method in methods:
            owner, name = method.split(".")
            theirs, ours, _ = OWNERS[owner]
            for cls in {*theirs, ours}:
                if cls is not ours and issubclass(cls, ours) and name not in vars(cls):
                    continue  # what it inherits is watched there
                if not _watch(cls, method, name, seen, stack):
                    unseen_of.add(method)
        yield lambda wanted: [
            f"{method}({parameter})"
            for method, parameter in wanted
            if (method, parameter) not in seen and method not in unseen_of
        ]


def _watch(cls: type, method: str, name: str, seen: Seen, stack: contextlib.ExitStack) -> bool:
    """Record the calls of one method of one class; False if that is impossible."""
    original = inspect.getattr_static(cls, name, None)
    watched: Any
    if original is None:
        return (method, "") in NEWER  # not there, so not called; else it is an attribute
    if isinstance(original, property):

        def read(self: Any) -> Any:
            seen.add((method, ""))
            return original.fget(self)  # type: ignore[misc]

        watched = property(read)
    elif inspect.isfunction(original) and name not in OPERATORS:
        watched = _recorder(original, method, seen)
    else:
        return False
    own = name in vars(cls)
    try:
        setattr(cls, name, watched)
    except TypeError:
        return False
    stack.callback(setattr, cls, name, original) if own else stack.callback(delattr, cls, name)
    return True


def _recorder(original: Any, method: str, seen: Seen) -> Any:
    signature = inspect.signature(original)
    optional = {name for name, parameter in signature.parameters.items() if may_be_left_out(parameter)}

    def watched(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(TypeError):  # the call itself will raise it
            given = signature.bind(*args, **kwargs).arguments
            seen.add((method, ""))
            named = kwargs.keys() - signature.parameters.keys()  # which `**kwargs` takes
            seen.update((method, name) for name in (optional & given.keys()) | named)
            if method.endswith(".get_extra_info"):
                seen.add((method, f"'{given['name']}'"))
        return original(*args, **kwargs)

    return watched
