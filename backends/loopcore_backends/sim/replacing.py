"""Puts functions of the simulation where a program looks for Python's own, and puts Python's back.

A replacement is (owner, attribute, value). The owner is a module, a class or another object with a `__dict__`, or
a dict, whose item is replaced. A function of the simulation is not put there itself: a *stand-in* is, one for each
original for the life of the process. It calls the simulation's function in simulated threads, and the original in
every other thread and while no simulation runs. So the threads of a debugger or of pytest-xdist never see simulated
time, and a stand-in that the program kept (as a default argument, in a class) works in the next simulation as well.
Classes and other values are put there without a stand-in.

`from time import sleep` copies the function into another module. All modules are searched for such copies once;
later only modules that are new or have another number of globals. Copies that were made in a class or in a
default argument before the simulation stay real.

What the program itself put in place of Python's function, such as a mock, stays.

Thread: `installed` belongs to the thread that calls it, one at a time in a process.
"""

import builtins
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

from loopcore.errors import UsageError

Replacement = tuple[object, Any, object]

SIMULATED_THREADS: set[int] = set()
"""Identifiers of the threads that see the simulation; the machine of threads adds its own."""

# The machine needs the real functions. Test runners measure real time.
_REAL = frozenset(
    ["_pytest", "coverage", "debugpy", "execnet", "hypothesis", "pluggy", "pydevd", "pytest_timeout", "xdist"]
)
_MACHINE = ("loopcore.sim", "loopcore_backends.sim")

_PYTHONS_OWN = sys.stdlib_module_names - {"unittest"}  # a Mock says that it is of unittest.mock
_ABSENT: Any = object()


@contextmanager
def installed(replacements: Iterable[Replacement]) -> Iterator[None]:
    """Put `replacements` in place for the body of the `with` statement, in this thread and in SIMULATED_THREADS.

    Afterwards every owner has what it had before; modules that were imported meanwhile have the originals. An
    attribute that a module lacks must be the name of a builtin, which it then hides; otherwise AttributeError.
    Raises UsageError where a simulation runs already.
    """
    if SIMULATED_THREADS:
        raise UsageError(
            "a simulation is running in this process already: let it end first, or use another process (--jobs)"
        )
    places: list[tuple[Any, Any, Any, object]] = []  # owner, name, what is there before, what is put there
    used: list[_StandIn] = []
    put: dict[int, tuple[Any, object]] = {}  # by id of the original: the original, and what takes its place
    SIMULATED_THREADS.add(get_ident())
    try:
        for owner, name, value in replacements:
            slot = _slots.get((id(owner), name))
            if slot is None or slot.space.get(name, _ABSENT) is not slot.before:
                slot = _slot(owner, name)
            if slot.target is None:
                continue
            stand_in = slot.stand_in
            if stand_in is not None and callable(value) and not isinstance(value, type):
                stand_in.value = value
                used.append(stand_in)
                value = stand_in.callable
            if slot.may_be_copied and callable(value):  # copies of None are not this function's
                put[slot.key] = slot.original, value
            places.append((slot.target, name, slot.before, value))
        places += [(*copy, put[id(copy[2])][1]) for copy in _copies(put, places)]
        _put((owner, name, value) for owner, name, _, value in places)
        yield
    finally:
        SIMULATED_THREADS.clear()
        for stand_in in used:
            stand_in.value = stand_in.original
        _put((owner, name, before) for owner, name, before, _ in reversed(places))
        back = {id(value): original for original, value in put.values()}
        for _, space in _changed_modules(remember=False):
            for name, value in list(space.items()):
                if id(value) in back:
                    space[name] = back[id(value)]


@contextmanager
def real_functions() -> Iterator[None]:
    """Let the body of the `with` statement call Python's functions for real in this thread. Classes stay replaced."""
    thread = get_ident()
    was_simulated = thread in SIMULATED_THREADS
    SIMULATED_THREADS.discard(thread)
    try:
        yield
    finally:
        if was_simulated:
            SIMULATED_THREADS.add(thread)


def _put(values: Iterable[tuple[Any, Any, object]]) -> None:
    for owner, name, value in values:
        if isinstance(owner, dict):
            if value is _ABSENT:
                owner.pop(name, None)
            else:
                owner[name] = value
        elif value is not _ABSENT:
            setattr(owner, name, value)
        elif name in vars(owner):
            delattr(owner, name)


# ---------------------------------------------------------------- stand-ins


class _StandIn:
    """The callable that takes the place of `original`; `value` is what it calls in a simulated thread."""

    def __init__(self, original: Callable[..., Any]) -> None:
        self.original = self.value = original

        def call(*args: Any, **kwargs: Any) -> Any:
            return (self.value if get_ident() in SIMULATED_THREADS else original)(*args, **kwargs)

        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(call, name, getattr(original, name, ""))
        # As an attribute of a class it has to bind where the original does. Builtin functions do not.
        binds = isinstance(original, (FunctionType, MethodDescriptorType, WrapperDescriptorType))
        self.callable: Any = call if binds else staticmethod(call)


class StandsFor(type):
    """Metaclass of a class that takes the place of its base, `_real`: what is said of the one holds for the other.

    `isinstance` and `issubclass` accept instances and subclasses of the base, and the two are equal, so either finds
    what a dict has under the other. Classes that the program derives are ordinary.
    """

    _real: type

    def __init__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(name, bases, space, **kwargs)
        if "_real" in space:
            for attribute in ("__name__", "__qualname__", "__module__"):
                setattr(cls, attribute, getattr(cls._real, attribute))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls._real) if "_real" in vars(cls) else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls._real) if "_real" in vars(cls) else super().__subclasscheck__(subclass)

    def __eq__(cls, other: object) -> bool:
        return other is cls or ("_real" in vars(cls) and other is cls._real)

    def __hash__(cls) -> int:
        return hash(cls._real) if "_real" in vars(cls) else super().__hash__()


_stand_ins: dict[int, _StandIn] = {}  # by the id of the original and by that of the callable


def _stand_in(original: Any) -> _StandIn:
    stand_in = _StandIn(original)
    _stand_ins[id(original)] = _stand_ins[id(stand_in.callable)] = stand_in
    return stand_in


class _Slot:
    """What is known of an attribute that has been replaced before."""

    __slots__ = ("owner", "space", "target", "before", "original", "key", "stand_in", "may_be_copied")

    def __init__(self, owner: Any, name: Any) -> None:
        self.owner = owner
        self.space: Any = owner if isinstance(owner, dict) else vars(owner)
        is_module = isinstance(owner, ModuleType)
        self.target: Any = self.space if is_module else owner
        """Where the replacement is put; None if the program has put something there itself, which stays."""
        self.before: Any = self.space.get(name, _ABSENT)
        self.original: Any = _inherited(owner, name) if self.before is _ABSENT else self.before
        self.stand_in: _StandIn | None = None
        self.may_be_copied = is_module and callable(self.original)
        if callable(self.original):
            if id(self.original) not in _stand_ins and not _is_pythons_own(self.original, owner):
                self.target = None
            else:
                self.stand_in = _stand_in(self.original)
                self.original = self.stand_in.original
        self.key = id(self.original)


_slots: dict[tuple[int, Any], _Slot] = {}  # by the id of the owner and the name


def _slot(owner: Any, name: Any) -> _Slot:
    slot = _Slot(owner, name)
    if slot.before is not _ABSENT and slot.target is not None:
        _slots[id(owner), name] = slot
    return slot


def _inherited(owner: object, name: str) -> Any:
    if isinstance(owner, dict):
        return _ABSENT
    if isinstance(owner, ModuleType):
        if not hasattr(builtins, name):
            raise AttributeError(f"{owner.__name__} has no attribute {name!r} to replace", name=name, obj=owner)
        return _ABSENT
    return getattr(owner, name)


def _is_pythons_own(value: object, owner: object) -> bool:
    module = getattr(value, "__module__", None)
    if not isinstance(module, str):
        return True  # methods of builtin objects, such as random.random
    package = module.partition(".")[0]
    home = getattr(owner, "__name__" if isinstance(owner, ModuleType) else "__module__", "")
    return package in _PYTHONS_OWN or package.startswith(home.partition(".")[0] or "\0")  # psycopg's, of psycopg_binary


# ---------------------------------------------------------------- copies in other modules


class _Seen:
    """The state of the last search."""

    modules: dict[str, Any] = {}
    spaces: list[dict[str, Any]] = []
    sizes: list[int] = []
    originals: dict[int, tuple[Any, object]] = {}
    copies: dict[str, list[tuple[dict[str, Any], str, Any]]] = {}  # by the name of the module


def _copies(originals: dict[int, tuple[Any, object]], places: list[Any]) -> list[tuple[dict[str, Any], str, Any]]:
    """Where modules have one of `originals`, besides `places`: (globals, name, original)."""
    if originals.keys() != _Seen.originals.keys():
        _Seen.originals = originals
        _Seen.modules, _Seen.spaces, _Seen.sizes, _Seen.copies = {}, [], [], {}
    changed = _changed_modules(remember=True)
    known = {(id(place[0]), place[1]) for place in places} if len(changed) > 1 else ()  # __main__ is in no place
    for module, space in changed:
        _Seen.copies.pop(module, None)
        if found := [
            (space, name, value)
            for name, value in list(space.items())
            if id(value) in originals and (id(space), name) not in known
        ]:
            _Seen.copies[module] = found
    return [copy for found in _Seen.copies.values() for copy in found if copy[0].get(copy[1]) is copy[2]]


def _changed_modules(*, remember: bool) -> list[tuple[str, dict[str, Any]]]:
    """Names and globals of the modules that are new or have changed since they were remembered; always of __main__."""
    if sys.modules == _Seen.modules and list(map(len, _Seen.spaces)) == _Seen.sizes:
        return [("__main__", vars(sys.modules["__main__"]))] if "__main__" in sys.modules else []
    known = {id(space): size for space, size in zip(_Seen.spaces, _Seen.sizes, strict=True)}
    modules = dict(sys.modules)
    spaces = _spaces(modules)
    if remember:
        _Seen.modules, _Seen.spaces = modules, list(spaces.values())
        _Seen.sizes = list(map(len, _Seen.spaces))
    return [(name, space) for name, space in spaces.items() if known.get(id(space)) != len(space) or name == "__main__"]


def _spaces(modules: dict[str, ModuleType]) -> dict[str, dict[str, Any]]:
    """The globals of the modules that may see the simulation."""
    return {
        name: ModuleType.__getattribute__(module, "__dict__")  # a lazy module would load itself
        for name, module in modules.items()
        if issubclass(type(module), ModuleType)
        and name.partition(".")[0] not in _REAL
        and not name.startswith(_MACHINE)
    }
