"""Discovery: which backends and plugins are installed, and which one a program gets.

Backends and plugins are entry points, in the groups `loopcore.backends` and `loopcore.plugins` (see `catalogue`).

A backend is chosen by argument, else by LOOPCORE_BACKEND, else by `auto`. Each is a name, or comma-separated names in
order of preference, which may include `auto`. A single name never silently becomes another. A list skips backends
that this platform does not have, but not a name that no platform has, nor a backend with a setting that it rejects.
`auto` considers only the backends that loopcore itself declares, so that no installed package can put its code into
a program that did not ask for it, and prefers the cheapest wait. It never chooses io_uring: containers block it
for good reasons.

Thread: any. Errors: UsageError for names that are unknown, empty or declared twice; BackendUnavailableError
for a backend that cannot run here; BackendError for code that does not fit the port.
"""

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from loopcore.errors import BackendError, BackendUnavailableError, LoopcoreError, UsageError
from loopcore.ports.check import check_backend, check_factory
from loopcore.ports.completion import Backend
from loopcore.ports.readiness import BackendFactory, ProbeResult
from loopcore.selection.catalogue import AUTO, Catalogue, Declaration, blame, path_of
from loopcore.selection.environment import read

BACKEND_VARIABLE: Final = "LOOPCORE_BACKEND"
PLUGIN_VARIABLE: Final = "LOOPCORE_PLUGINS"

AUTO_ORDER: Final = ("epoll", "poll", "kqueue", "iocp", "proactor", "select")
"""The names that `auto` tries, in order, and only if loopcore itself declares them: first those that have run on a real
kernel. kqueue has run on simulations only, so macOS and the BSDs get poll. Windows has none of the first three."""

OTHERS: Final = ("uring",)
"""Further names that are valid in a list even if no distribution declares them: a list may serve several platforms."""


class Choice(NamedTuple):
    """A backend that can run here, and a sentence that says why it was chosen."""

    name: str
    factory: BackendFactory
    reason: str
    declared_by: str
    own: bool
    """Whether loopcore's distribution declares it."""

    def make(self) -> Backend:
        """Return a new backend. An exception from its constructor gets a note that names the backend."""
        try:
            backend: Backend = self.factory()
        except Exception as exc:
            exc.add_note(f"raised by backend {self.name!r} ({self.declared_by}) while it was being created")
            raise
        if not self.own:
            try:
                check_backend(backend, f"backend {self.name!r} ({self.declared_by})")
            except BackendError:
                backend.close()
                raise
        return backend


class Extension(NamedTuple):
    """A backend or plugin that is installed or registered: an item of `list_backends()` or `list_plugins()`."""

    name: str
    """The name that `backend=`, `plugins=` and the environment variables take."""
    available: bool
    """Whether it can be used in this process."""
    reason: str
    """Why it cannot be used; empty if it can."""
    distribution: str
    """The distribution that declares it, with its version, or "register_backend()"."""


class BackendFacts(NamedTuple):
    """What `loopcore info` says about a backend."""

    name: str
    target: str
    """`module:attribute`."""
    reason: str
    """Why it cannot run here, or why its details cannot be read; otherwise empty."""
    details: Mapping[str, str]
    """Empty if there is a `reason`."""


BACKENDS: Final = Catalogue("loopcore.backends", "backend", BackendUnavailableError, {*AUTO_ORDER, *OTHERS})
PLUGINS: Final = Catalogue("loopcore.plugins", "plugin", UsageError)


_made_ahead: Final[dict[tuple[int, str], list[tuple[str | None, object]]]] = {}
"""Plugins that the next loop takes over, by process and LOOPCORE_PLUGINS. A forked child makes its own."""


def refresh() -> None:
    """Look for distributions that were installed since the first lookup."""
    BACKENDS.refresh()
    PLUGINS.refresh()


def register_backend(name: str, factory: BackendFactory) -> None:
    """Make `factory` available as backend `name` in this process, without an installation.

    Raises UsageError if the name is taken, BackendError if `factory` is not a backend.
    """
    check_factory(name, factory, f"{path_of(factory)} of register_backend()")
    BACKENDS.register(name, factory, "register_backend()")


def unregister_backend(name: str) -> None:
    """Undo `register_backend`."""
    BACKENDS.unregister(name)


def choose_backend(spec: str | None = None, asked: str | None = None) -> Choice:
    """Return the backend that `spec` asks for, else LOOPCORE_BACKEND, else the best one on this platform.

    `spec` is a name, comma-separated names in order of preference, or `auto`. The first available backend is chosen;
    if none is available, the error says why for each. An unknown name is always an error, and so
    is a setting that a backend tried on the way rejects (its `probe` raises UsageError).
    Errors begin with `asked`, the words in which the user gave `spec`.
    """
    spec, asked = _wish(spec, asked)
    choices = BACKENDS.choices  # before any lookup: a change to the catalogue meanwhile discards the choice made here
    candidates = _candidates(spec, asked)
    refusals: list[tuple[str, LoopcoreError]] = []
    for name, own in candidates.items():
        try:
            declaration = own or BACKENDS.find(name)
            factory = _available(declaration)
        except _WrongSettingError as exc:
            raise UsageError(f"{asked}: {exc}") from exc.__cause__
        except LoopcoreError as exc:
            refusals.append((name, exc))
        else:
            reason = _reason(asked, [*candidates] if own else [], refusals)
            refusals.clear()  # their tracebacks refer to this frame, and through it to the caller's loop
            choice = Choice(name, factory, reason, str(declaration), declaration.own)
            if "," not in spec:  # each backend of a list may have a setting to reject
                choices[spec, asked] = choice
            return choice
    raise _refusal(asked, refusals)


def take_backend(backend: Any) -> tuple[Backend, Callable[[], Backend]]:
    """Return `backend`, or the backend that it names as for `choose_backend`, and a factory of more like it.

    Raises UsageError if it is neither a backend nor names one, BackendError if it lacks a name or capabilities, and the
    errors of `choose_backend`.
    """
    is_one = backend is not None and not isinstance(backend, str | type)
    if is_one and all(hasattr(backend, each) for each in ("wait", "wake", "close")):
        return check_backend(backend, f"backend {backend!r}"), type(backend)
    choice = BACKENDS.choices.get(_wish(backend, None))
    if choice is not None and choice.own:  # what a probe of ours detects, the constructor detects as well
        try:
            return choice.make(), choice.make
        except Exception:
            choice = choose_backend(backend)  # raises with the reason, in the caller's words, or finds another one
    else:
        choice = choose_backend(backend)
    return choice.make(), choice.make


def list_backends() -> list[Extension]:
    """Return every backend that is installed or registered, and whether it can run here. Imports all of them."""

    def rank(name: str) -> tuple[int, str]:
        return (AUTO_ORDER.index(name) if name in AUTO_ORDER else len(AUTO_ORDER), name)

    return [_row(BACKENDS, name, _available) for name in sorted(BACKENDS.names(), key=rank)]


def describe_backends() -> list[BackendFacts]:
    """Return the facts about every backend, in the order of `list_backends`."""
    found = []
    for row in list_backends():
        declarations = BACKENDS.declarations(row.name)
        target = " and ".join(declaration.target for declaration in declarations)
        reason, details = row.reason, {}
        if row.available:
            try:
                details = dict(getattr(BACKENDS.load(declarations[0]), "details", dict)())
            except (Exception, SystemExit) as exc:
                reason = f"details() raised {type(exc).__name__}: {exc}"
        found.append(BackendFacts(row.name, target, reason, details))
    return found


def list_plugins() -> list[Extension]:
    """Return every plugin that is installed, and whether it can be imported. Imports all of them."""
    return [_row(PLUGINS, name, PLUGINS.load) for name in PLUGINS.names()]


def load_plugin(name: str, options: Mapping[str, str] = MappingProxyType({})) -> object:
    """Return the plugin `name`: the object its entry point names, called with `options` if it is a class or function.

    Options come as text and are converted as `loopcore.selection.plugin_options` describes.
    """
    return find_plugin(name, options)()


def find_plugin(name: str, options: Mapping[str, str] = MappingProxyType({})) -> Callable[[], object]:
    """Return the factory that `load_plugin` calls. Raises UsageError for every mistake found before it is called."""
    # Here, as importing pathlib takes a while, and most programs have no plugins.
    from loopcore.selection.plugin_options import convert_options

    declaration = PLUGINS.find(name)
    target = PLUGINS.load(declaration)
    who = declaration.label("plugin")
    if not (inspect.isclass(target) or inspect.isroutine(target) or isinstance(target, functools.partial)):
        if options:
            raise UsageError(f"{who} accepts no options: it is an object already, not a class or function")
        return lambda: target
    if inspect.iscoroutinefunction(target):
        raise UsageError(f"{who} is a coroutine function, which no loop awaits here; declare a class or a function")
    arguments = convert_options(who, target, options)

    def make() -> object:
        try:
            return target(**arguments)
        except UsageError as exc:
            raise UsageError(blame(who, name, exc)) from exc.__cause__
        except (Exception, SystemExit) as exc:
            raise UsageError(f"{who} cannot be created: {type(exc).__name__}: {exc}") from exc

    return make


def find_plugins(text: str | None = None) -> list[tuple[str, Callable[[], object]]]:
    """Return (name, factory) for each plugin in `text`, else in LOOPCORE_PLUGINS, in that order."""
    if text is not None:
        from loopcore.selection.plugin_options import parse_wishes

        return [(name, find_plugin(name, options)) for name, options in parse_wishes(text)]
    text = read(PLUGIN_VARIABLE)
    if not text:
        return []
    try:
        return find_plugins(text)
    except UsageError as exc:
        raise UsageError(f"{PLUGIN_VARIABLE}={text}: {exc}") from exc.__cause__


def load_plugins(plugins: str | Iterable[str | object] | None = None) -> list[tuple[str | None, object]]:
    """Return (name, plugin) for each of `plugins`, else for each in LOOPCORE_PLUGINS, in that order.

    `plugins` is a string (`loopcore.selection.plugin_options` has the grammar), or an iterable of strings and
    objects; objects have the name None.
    """
    if plugins is None and _made_ahead:
        ahead = _made_ahead.pop((os.getpid(), os.environ.get(PLUGIN_VARIABLE, "")), None)
        if ahead is not None:
            return ahead
    if plugins is None or isinstance(plugins, str):
        return [(name, make()) for name, make in find_plugins(plugins)]
    if not isinstance(plugins, Iterable):
        raise UsageError(f"plugins= takes names, or a list of names and objects with hooks, not {plugins!r}")
    loaded: list[tuple[str | None, object]] = []
    for each in plugins:
        loaded += load_plugins(each) if isinstance(each, str) else [(None, each)]
    return loaded


def make_plugins_ahead() -> None:
    """Create the plugins of LOOPCORE_PLUGINS now, for the first loop that this process creates with them.

    So `loopcore run` reports a plugin that cannot be created, or that conflicts with another one, before the program
    starts.
    """
    made = load_plugins()
    if made:
        from loopcore.kernel.plugins import Plugins  # most programs have none

        together = Plugins()
        for name, plugin in made:
            together.add(plugin, name)
        _made_ahead[os.getpid(), os.environ.get(PLUGIN_VARIABLE, "")] = list(made)


def _wish(spec: str | None, asked: str | None) -> tuple[str, str]:
    """Return the requested spec, and how to refer to it in messages. An empty variable counts as unset."""
    if spec is not None:
        if not isinstance(spec, str):
            raise UsageError(
                f"backend= takes a name, comma-separated names, or a backend instance, not {spec!r}; "
                f"give yours a name with register_backend(name, factory)"
            )
        return spec, asked or f"backend={spec!r}"
    spec = read(BACKEND_VARIABLE)
    return (spec, f"{BACKEND_VARIABLE}={spec}") if spec else (AUTO, AUTO)


def _candidates(spec: str, asked: str) -> dict[str, Declaration | None]:
    """Return the names to try, in order; those that `auto` stands for come with loopcore's own declaration."""
    candidates: dict[str, Declaration | None] = {}
    parts = [part.strip() for part in spec.split(",")]
    for part in parts:
        if part == AUTO:
            for name in AUTO_ORDER:
                if (own := BACKENDS.own(name)) is not None:
                    candidates.setdefault(name, own)
        elif part:
            try:
                BACKENDS.check_known(part)
            except UsageError as exc:
                raise UsageError(f"{asked}: {exc}") from None
            candidates.setdefault(part, None)
    if candidates:
        return candidates
    if AUTO in parts:
        raise BackendUnavailableError(
            f"{asked}: no backend of loopcore's own is declared; is loopcore installed, or only on the import path? "
            "pip install loopcore"
        )
    raise UsageError(f"{asked} names no backend; name one (see `loopcore backends`), or leave it out for {AUTO!r}")


class _WrongSettingError(UsageError):
    """A backend's `probe` rejected a setting of the user."""


def _available(declaration: Declaration) -> BackendFactory:
    """Return the factory that `declaration` stands for, if its probe says that it can run here."""
    factory = check_factory(declaration.name, BACKENDS.load(declaration), str(declaration))
    try:
        result = factory.probe()
    except UsageError as exc:
        raise _WrongSettingError(f"backend {declaration.name!r}: {exc}") from exc.__cause__
    except (Exception, SystemExit) as exc:
        raise BackendError(f"backend {declaration.name!r} ({declaration}): probe() raised {exc!r}") from exc
    if not isinstance(result, ProbeResult):
        raise BackendError(
            f"backend {declaration.name!r} ({declaration}): probe() returned {result!r}, not a ProbeResult"
        )
    if not result.available:
        raise BackendUnavailableError(
            f"backend {declaration.name!r} cannot run here: {result.reason or 'no reason given'}"
        )
    return factory


def _row(catalogue: Catalogue, name: str, check: Callable[[Declaration], object]) -> Extension:
    try:
        check(catalogue.find(name))
    except LoopcoreError as exc:
        reason = str(exc)
    else:
        reason = ""
    distributions = ", ".join(declaration.distribution for declaration in catalogue.declarations(name))
    return Extension(name, not reason, reason, distributions)


def _reason(asked: str, tried: list[str], refusals: list[tuple[str, LoopcoreError]]) -> str:
    """Say why a backend was chosen; `tried` is empty if it was requested by name."""
    reason = f"{asked} takes the first of {', '.join(tried)} that can run here" if tried else f"{asked} asks for it"
    passed_over = "; ".join(str(exc) for _, exc in refusals)
    return reason + (f" (skipped: {passed_over})" if passed_over else "")


def _refusal(asked: str, refusals: list[tuple[str, LoopcoreError]]) -> LoopcoreError:
    """Return one error for all refusals: a single one keeps its type; several blame the environment, or a typo."""
    if len(refusals) == 1:
        name, cause = refusals[0]
        repeated = f"backend {name!r} "
        names_it = asked.strip("'\"").endswith(name) and str(cause).startswith(repeated)
        error = type(cause)(f"{asked} {str(cause).removeprefix(repeated)}" if names_it else f"{asked}: {cause}")
        error.__cause__ = cause.__cause__
        return error
    unknown = all(isinstance(exc, UsageError) for _, exc in refusals)
    kind = UsageError if unknown else BackendUnavailableError
    reasons = ", ".join(f"{name} ({_without(name, str(exc))})" for name, exc in refusals)
    return kind(f"{asked}: none of these can be used: {reasons}")


def _without(name: str, reason: str) -> str:
    """Return `reason` without the words that a list of names repeats."""
    return reason.removeprefix(f"backend {name!r} ").removeprefix("cannot run here: ")
