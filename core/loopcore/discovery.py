"""Discovery: which backends and plugins are installed, and which one a program gets.

Backends and plugins are entry points, in the groups `loopcore.backends` and `loopcore.plugins`. Core has no list of
them: ours and a stranger's come through the same door. Names are read from the metadata of the
installed distributions, once; code is imported only when somebody asks for it by name, and kept.

A backend is chosen by argument, else by LOOPCORE_BACKEND, else by `auto`. Each is a name, or names in order of
preference separated by commas, `auto` among them if wanted. A single name never silently becomes another.
`auto` looks only at what loopcore itself declares, so that no installed package can put its code into
a program that did not ask for it, and prefers the cheapest wait. io_uring is never in it: containers block it
for good reasons.

Thread: any. Errors: UsageError for names that are unknown, empty or declared twice; BackendUnavailableError
for what cannot run here; BackendError for code that is not what the port asks for.
"""

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, cast

from loopcore.backend import BACKEND_API, BackendFactory, ProbeResult, ReadinessBackend
from loopcore.errors import BackendError, BackendUnavailableError, LoopcoreError, UsageError

BACKEND_VARIABLE: Final = "LOOPCORE_BACKEND"
PLUGIN_VARIABLE: Final = "LOOPCORE_PLUGINS"

AUTO: Final = "auto"
AUTO_ORDER: Final = ("kqueue", "epoll", "poll", "select")
"""What `auto` tries, in order; names only, and only those that loopcore's own distribution declares."""

METHODS: Final = ("register", "modify", "unregister", "wait", "wake", "close")
"""What a readiness backend has beside `probe`."""

OWN_DISTRIBUTION: Final = "loopcore"


class Choice(NamedTuple):
    """A backend that can run here, and a sentence that says why it was taken."""

    name: str
    factory: BackendFactory
    reason: str


class Row(NamedTuple):
    """A line of `loopcore backends` or `loopcore plugins`; `reason` is empty if `available`."""

    name: str
    available: bool
    reason: str
    distribution: str


class Declaration(NamedTuple):
    """Somebody's claim that a name stands for an object, which `load` brings."""

    name: str
    target: str
    """`module:attribute`, for messages."""
    distribution: str
    """Name and version of the distribution that says so, or `register_backend()`."""
    own: bool
    load: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.target} of {self.distribution}"


class Catalogue:
    """The names of one entry-point group, and what was registered beside them without installation."""

    def __init__(self, group: str, noun: str, import_failure: type[LoopcoreError]) -> None:
        self.group = group
        self._noun = noun
        self._import_failure = import_failure
        self._installed: dict[str, list[Declaration]] | None = None
        self._registered: dict[str, Declaration] = {}
        self._loaded: dict[Declaration, object] = {}

    def refresh(self) -> None:
        """Forget what was read from the installed distributions; the next question reads them again."""
        self._installed = None
        self._loaded.clear()

    def declarations(self, name: str) -> list[Declaration]:
        """Return all who declare `name`: none, one, or too many."""
        registered = self._registered.get(name)
        return [*self._scan().get(name, ()), *([registered] if registered else [])]

    def names(self) -> list[str]:
        """Return every name declared, sorted."""
        return sorted({*self._scan(), *self._registered})

    def find(self, name: str) -> Declaration:
        """Return the one declaration of `name`. Raises UsageError if there is none, or another."""
        found = self.declarations(name)
        if len(found) == 1:
            return found[0]
        if not found:
            raise UsageError(f"there is no {self._noun} {name!r}{self._what_exists(name)}")
        raise UsageError(
            f"{self._noun} {name!r} is declared {len(found)} times: by {' and by '.join(map(str, found))}; "
            "uninstall or rename one of them"
        )

    def load(self, declaration: Declaration) -> object:
        """Return what `declaration` stands for, imported now if it was not before."""
        if declaration not in self._loaded:
            try:
                self._loaded[declaration] = declaration.load()
            except Exception as exc:
                raise self._import_failure(
                    f"{self._noun} {declaration.name!r} ({declaration}) cannot be imported: "
                    f"{type(exc).__name__}: {exc}; install what it needs, or ask for another"
                ) from exc
        return self._loaded[declaration]

    def register(self, name: str, target: object, by: str) -> None:
        """Let `name` stand for `target` in this process. Raises UsageError if it stands for something else."""
        if not isinstance(name, str) or not name or name == AUTO or any(c == "," or c.isspace() for c in name):
            raise UsageError(f"{name!r} cannot name a {self._noun}: a name is a word without commas, and not {AUTO!r}")
        known = self.declarations(name)
        declaration = Declaration(name, _path_of(target), by, False, lambda: target)
        if known and not (name in self._registered and self._registered[name].load() is target):
            raise UsageError(f"{self._noun} {name!r} is declared by {known[0]}; {declaration} needs another name")
        self._registered[name] = declaration

    def unregister(self, name: str) -> None:
        """Take back `register`. Raises UsageError if `name` was not registered."""
        declaration = self._registered.pop(name, None)
        if declaration is None:
            raise UsageError(f"{self._noun} {name!r} was not registered, so it cannot be unregistered")
        self._loaded.pop(declaration, None)

    def _scan(self) -> dict[str, list[Declaration]]:
        if self._installed is None:
            from importlib import metadata  # here, because it costs a program's start some milliseconds

            installed: dict[str, list[Declaration]] = {}
            for entry in metadata.entry_points(group=self.group):
                name, version = (entry.dist.name, entry.dist.version) if entry.dist else ("an unknown distribution", "")
                own = name.lower() == OWN_DISTRIBUTION
                made = Declaration(entry.name, entry.value, f"{name} {version}".strip(), own, entry.load)
                installed.setdefault(entry.name, []).append(made)
            self._installed = installed
        return self._installed

    def _what_exists(self, name: str) -> str:
        import difflib

        names = self.names()
        if not names:
            return f"; none is installed: no distribution has entry points in the group {self.group!r}"
        close = difflib.get_close_matches(name.lower(), names, n=1)
        return (f" (did you mean {close[0]!r}?)" if close else "") + "; installed: " + ", ".join(names)


BACKENDS: Final = Catalogue("loopcore.backends", "backend", BackendUnavailableError)
PLUGINS: Final = Catalogue("loopcore.plugins", "plugin", UsageError)


def refresh() -> None:
    """Look for distributions that were installed since the first question was asked."""
    BACKENDS.refresh()
    PLUGINS.refresh()


def register_backend(name: str, factory: BackendFactory) -> None:
    """Make `factory` available as backend `name` in this process, without an installation.

    Raises UsageError if the name is taken, BackendError if `factory` is no backend.
    """
    _checked(name, factory, f"{_path_of(factory)} of register_backend()")
    BACKENDS.register(name, factory, "register_backend()")


def unregister_backend(name: str) -> None:
    """Take back `register_backend`."""
    BACKENDS.unregister(name)


def choose_backend(spec: str | None = None) -> Choice:
    """Return the backend that `spec` asks for, else LOOPCORE_BACKEND, else the best of this platform.

    `spec` is a name, names separated by commas in order of preference, or `auto`. The first that is
    available is taken; if none is, the error says of each why not.
    """
    spec, asked = _wish(spec)
    candidates = _candidates(spec, asked)
    refusals: list[tuple[str, LoopcoreError]] = []
    for name, own in candidates.items():
        try:
            factory = _available(own or BACKENDS.find(name))
        except LoopcoreError as exc:
            refusals.append((name, exc))
        else:
            return Choice(name, factory, _reason(asked, [*candidates] if own else [], refusals))
    raise _refusal(asked, refusals)


def list_backends() -> list[Row]:
    """Return every backend that is installed or registered, and whether it can run here. Imports all of them."""

    def rank(name: str) -> tuple[int, str]:
        return (AUTO_ORDER.index(name) if name in AUTO_ORDER else len(AUTO_ORDER), name)

    return [_row(BACKENDS, name, _available) for name in sorted(BACKENDS.names(), key=rank)]


def list_plugins() -> list[Row]:
    """Return every plugin that is installed, and whether it can be imported. Imports all of them."""
    return [_row(PLUGINS, name, PLUGINS.load) for name in PLUGINS.names()]


def load_plugin(name: str) -> object:
    """Return the plugin `name`: what its entry point names, called without arguments if that is a class or function."""
    declaration = PLUGINS.find(name)
    target = PLUGINS.load(declaration)
    if not (inspect.isclass(target) or inspect.isroutine(target) or isinstance(target, functools.partial)):
        return target
    try:
        return target()
    except Exception as exc:
        raise UsageError(f"plugin {name!r} ({declaration}) cannot be made: {type(exc).__name__}: {exc}") from exc


def load_plugins(names: str | Iterable[str] | None = None) -> list[tuple[str, object]]:
    """Return (name, plugin) for each of `names`, else for each name in LOOPCORE_PLUGINS, in that order."""
    if names is None:
        names = os.environ.get(PLUGIN_VARIABLE, "")
    if isinstance(names, str):
        names = names.split(",")
    wanted = dict.fromkeys(name.strip() for name in names)
    return [(name, load_plugin(name)) for name in wanted if name]


def _wish(spec: str | None) -> tuple[str, str]:
    """Return what is asked for, and how to call that in a message. An empty variable counts as unset."""
    if spec is not None:
        if not isinstance(spec, str):
            raise UsageError(
                f"backend= takes a name, not {spec!r}; give yours one with register_backend(name, factory)"
            )
        return spec, f"backend={spec!r}"
    spec = os.environ.get(BACKEND_VARIABLE, "")
    return (spec, f"{BACKEND_VARIABLE}={spec}") if spec.strip() else (AUTO, AUTO)


def _candidates(spec: str, asked: str) -> dict[str, Declaration | None]:
    """Return the names to try in order, those that `auto` stands for with loopcore's own declaration."""
    candidates: dict[str, Declaration | None] = {}
    parts = [part.strip() for part in spec.split(",")]
    for part in parts:
        if part == AUTO:
            for name in AUTO_ORDER:
                for declaration in BACKENDS.declarations(name):
                    if declaration.own:
                        candidates.setdefault(name, declaration)
        elif part:
            candidates.setdefault(part, None)
    if candidates:
        return candidates
    if AUTO in parts:
        raise BackendUnavailableError(
            f"{asked}: no backend of loopcore's own is declared; is loopcore installed, or only on the import path? "
            "pip install loopcore"
        )
    raise UsageError(f"{asked} names no backend; name one, or leave it out for {AUTO!r}")


def _available(declaration: Declaration) -> BackendFactory:
    """Return the factory that `declaration` stands for, after its probe said that it can run here."""
    factory = _checked(declaration.name, BACKENDS.load(declaration), str(declaration))
    try:
        result = factory.probe()
    except Exception as exc:
        raise BackendError(f"backend {declaration.name!r} ({declaration}): probe() raised {exc!r}") from exc
    if not isinstance(result, ProbeResult):
        raise BackendError(
            f"backend {declaration.name!r} ({declaration}): probe() returned {result!r}, which is no ProbeResult"
        )
    if not result.available:
        raise BackendUnavailableError(
            f"backend {declaration.name!r} cannot run here: {result.reason or 'no reason given'}"
        )
    return factory


def _checked(name: str, factory: object, by: str) -> BackendFactory:
    """Return `factory` if it has what the port asks for; of a function, what it makes is looked at later."""
    wanted = getattr(factory, "backend_api", BACKEND_API)
    if not (isinstance(wanted, tuple) and wanted[:1] == BACKEND_API[:1] and wanted <= BACKEND_API):
        raise BackendError(
            f"backend {name!r} ({by}) is written for version {wanted} of the backend port, but this loopcore has "
            f"version {BACKEND_API}; install versions that fit together"
        )
    if not callable(factory):
        raise BackendError(f"backend {name!r} ({by}) is {factory!r}, which cannot be called to make a backend")
    if inspect.isclass(factory):
        _must_have(("probe", *METHODS), name, factory, by)
        return cast(BackendFactory, factory)
    return _CheckedFactory(name, factory, by)


class _CheckedFactory:
    """A factory that is no class: the backend is looked at when it is made; without `probe` it counts as available."""

    def __init__(self, name: str, factory: Callable[[], Any], by: str) -> None:
        self._name = name
        self._factory = factory
        self._by = by
        self.probe: Callable[[], ProbeResult] = getattr(factory, "probe", lambda: ProbeResult(True))

    def __call__(self) -> ReadinessBackend:
        backend: ReadinessBackend = self._factory()
        _must_have(METHODS, self._name, backend, self._by)
        return backend


def _must_have(methods: Iterable[str], name: str, owner: object, by: str) -> None:
    missing = [method for method in methods if not callable(getattr(owner, method, None))]
    if missing:
        raise BackendError(f"backend {name!r} ({by}) has no {', '.join(missing)}(); loopcore.backend says what they do")


def _row(catalogue: Catalogue, name: str, check: Callable[[Declaration], object]) -> Row:
    try:
        check(catalogue.find(name))
    except LoopcoreError as exc:
        reason = str(exc)
    else:
        reason = ""
    distributions = ", ".join(declaration.distribution for declaration in catalogue.declarations(name))
    return Row(name, not reason, reason, distributions)


def _reason(asked: str, tried: list[str], refusals: list[tuple[str, LoopcoreError]]) -> str:
    """Say why a backend was chosen; `tried` is empty if it was asked for by its own name."""
    reason = f"{asked} takes the first of {', '.join(tried)} that can run here" if tried else f"{asked} asks for it"
    passed_over = "; ".join(str(exc) for _, exc in refusals)
    return reason + (f" (passed over: {passed_over})" if passed_over else "")


def _refusal(asked: str, refusals: list[tuple[str, LoopcoreError]]) -> LoopcoreError:
    """Return one error for all: of its own kind if there is a single one, else blaming the environment or a typo."""
    if len(refusals) == 1:
        cause = refusals[0][1]
        error = type(cause)(f"{asked}: {cause}")
        error.__cause__ = cause.__cause__
        return error
    unknown = all(isinstance(exc, UsageError) for _, exc in refusals)
    kind = UsageError if unknown else BackendUnavailableError
    return kind(f"{asked}: none of these can be used:" + "".join(f"\n  {name}: {exc}" for name, exc in refusals))


def _path_of(target: object) -> str:
    path = f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', '')}"
    return path if len(path) > 1 else repr(target)
