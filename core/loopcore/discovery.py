"""Discovery: which backends and plugins are installed, and which one a program gets.

Backends and plugins are entry points, in the groups `loopcore.backends` and `loopcore.plugins`. Core has no list of
them: ours and a stranger's come through the same door. Names are read from the metadata of the
installed distributions, once; code is imported only when somebody asks for it by name, and kept.

A backend is chosen by argument, else by LOOPCORE_BACKEND, else by `auto`. Each is a name, or names in order of
preference separated by commas, `auto` among them if wanted. A single name never silently becomes another, and a
list passes over what this platform does not have, but neither over a name that no platform has nor over a backend that
was given a setting which it does not know.
`auto` looks only at what loopcore itself declares, so that no installed package can put its code into
a program that did not ask for it, and prefers the cheapest wait. io_uring is never in it: containers block it
for good reasons.

Thread: any. Errors: UsageError for names that are unknown, empty or declared twice; BackendUnavailableError
for what cannot run here; BackendError for code that is not what the port asks for.
"""

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from loopcore.backend import BackendFactory, ProbeResult, ReadinessBackend
from loopcore.catalogue import AUTO, Catalogue, Declaration, path_of
from loopcore.completion import CompletionBackend
from loopcore.environment import PLUGIN_VARIABLE, read
from loopcore.errors import BackendError, BackendUnavailableError, LoopcoreError, UsageError
from loopcore.plugin_options import convert_options, parse_wishes
from loopcore.port_check import check_factory

BACKEND_VARIABLE: Final = "LOOPCORE_BACKEND"

AUTO_ORDER: Final = ("kqueue", "epoll", "iocp", "poll", "proactor", "select")
"""What `auto` tries, in order; names only, and only those that loopcore's own distribution declares. Windows has
neither of the first two nor poll(2); where that is, the proactor, which only plays its port, is never come to."""

OTHERS: Final = ("uring",)
"""Further names that a list may hold where nobody declares them, as one that serves several platforms does."""


class Choice(NamedTuple):
    """A backend that can run here, and a sentence that says why it was taken."""

    name: str
    factory: BackendFactory
    reason: str
    declared_by: str
    own: bool
    """Whether loopcore's distribution declares it."""

    def make(self) -> ReadinessBackend | CompletionBackend:
        """Return a new backend. What its constructor raises gets a note that names the culprit."""
        try:
            backend: ReadinessBackend | CompletionBackend = self.factory()
            return backend
        except Exception as exc:
            exc.add_note(f"raised by backend {self.name!r} ({self.declared_by}) while it was made")
            raise


class Row(NamedTuple):
    """A line of `loopcore backends` or `loopcore plugins`; `reason` is empty if `available`."""

    name: str
    available: bool
    reason: str
    distribution: str


class BackendFacts(NamedTuple):
    """What `loopcore info` says of a backend; `reason` is empty if it can run here, and `details` if it cannot."""

    name: str
    target: str
    """`module:attribute`."""
    reason: str
    details: Mapping[str, str]


BACKENDS: Final = Catalogue("loopcore.backends", "backend", BackendUnavailableError, {*AUTO_ORDER, *OTHERS})
PLUGINS: Final = Catalogue("loopcore.plugins", "plugin", UsageError)


_made_ahead: Final[dict[tuple[int, str], list[tuple[str | None, object]]]] = {}
"""By process and LOOPCORE_PLUGINS: plugins that the next loop takes over. A forked child makes its own."""


def refresh() -> None:
    """Look for distributions that were installed since the first question was asked."""
    BACKENDS.refresh()
    PLUGINS.refresh()


def register_backend(name: str, factory: BackendFactory) -> None:
    """Make `factory` available as backend `name` in this process, without an installation.

    Raises UsageError if the name is taken, BackendError if `factory` is no backend.
    """
    check_factory(name, factory, f"{path_of(factory)} of register_backend()")
    BACKENDS.register(name, factory, "register_backend()")


def unregister_backend(name: str) -> None:
    """Take back `register_backend`."""
    BACKENDS.unregister(name)


def choose_backend(spec: str | None = None, asked: str | None = None) -> Choice:
    """Return the backend that `spec` asks for, else LOOPCORE_BACKEND, else the best of this platform.

    `spec` is a name, names separated by commas in order of preference, or `auto`. The first that is
    available is taken; if none is, the error says of each why not. A name that nobody knows is always an error, and so
    is a setting that a backend on the way refuses (its `probe` raises UsageError).
    Errors begin with `asked`, the words in which the user gave `spec`.
    """
    spec, asked = _wish(spec, asked)
    is_list = "," in spec
    if not is_list and (before := _chosen_before(spec, asked)) is not None:
        return before
    choices = BACKENDS.choices  # before anything is looked up: what is taken back meanwhile is not kept
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
            refusals.clear()  # their tracebacks lead here, and from here to who has asked: the loop
            choice = Choice(name, factory, reason, str(declaration), declaration.own)
            if not is_list:  # of a list, each name may have a setting to refuse
                choices[spec, asked] = choice
            return choice
    raise _refusal(asked, refusals)


def take_backend(backend: Any) -> tuple[Any, Any]:
    """Return the backend that `backend` is, or names as for `choose_backend`, and what makes another one like it.

    Raises UsageError for what is neither, and as `choose_backend` does.
    """
    is_one = backend is not None and not isinstance(backend, str | type)
    if is_one and all(hasattr(backend, each) for each in ("wait", "wake", "close")):
        return backend, type(backend)
    choice = BACKENDS.choices.get(_wish(backend, None))
    if choice is not None and choice.own:  # what a probe of ours would find, its constructor finds as well
        try:
            return choice.make(), choice.make
        except Exception:
            choice = choose_backend(backend)  # says why not, in the words of who has asked, or brings another one
    else:
        choice = choose_backend(backend)
    return choice.make(), choice.make


def list_backends() -> list[Row]:
    """Return every backend that is installed or registered, and whether it can run here. Imports all of them."""

    def rank(name: str) -> tuple[int, str]:
        return (AUTO_ORDER.index(name) if name in AUTO_ORDER else len(AUTO_ORDER), name)

    return [_row(BACKENDS, name, _available) for name in sorted(BACKENDS.names(), key=rank)]


def describe_backends() -> list[BackendFacts]:
    """Return what is to be said of every backend, in the order of `list_backends`."""
    found = []
    for row in list_backends():
        declarations = BACKENDS.declarations(row.name)
        target = " and ".join(declaration.target for declaration in declarations)
        reason, details = row.reason, {}
        if row.available:
            try:
                details = dict(getattr(BACKENDS.load(declarations[0]), "details", dict)())
            except Exception as exc:
                reason = f"details() raised {type(exc).__name__}: {exc}"
        found.append(BackendFacts(row.name, target, reason, details))
    return found


def list_plugins() -> list[Row]:
    """Return every plugin that is installed, and whether it can be imported. Imports all of them."""
    return [_row(PLUGINS, name, PLUGINS.load) for name in PLUGINS.names()]


def load_plugin(name: str, options: Mapping[str, str] = MappingProxyType({})) -> object:
    """Return the plugin `name`: what its entry point names, called with `options` if that is a class or function.

    Options come as text and are converted as `loopcore.plugin_options` says.
    """
    return find_plugin(name, options)()


def find_plugin(name: str, options: Mapping[str, str] = MappingProxyType({})) -> Callable[[], object]:
    """Return what `load_plugin` calls. Raises UsageError for whatever is wrong, but for what making it raises."""
    declaration = PLUGINS.find(name)
    target = PLUGINS.load(declaration)
    who = f"plugin {name!r} ({declaration})"
    if not (inspect.isclass(target) or inspect.isroutine(target) or isinstance(target, functools.partial)):
        if options:
            raise UsageError(f"{who} accepts no options: it is an object already, not a class or function")
        return lambda: target
    arguments = convert_options(who, target, options)

    def make() -> object:
        try:
            return target(**arguments)
        except UsageError as exc:
            raise UsageError(f"{who}: {exc}") from exc.__cause__
        except Exception as exc:
            raise UsageError(f"{who} cannot be made: {type(exc).__name__}: {exc}") from exc

    return make


def find_plugins(text: str | None = None) -> list[tuple[str, Callable[[], object]]]:
    """Return names and makers of the plugins in `text`, else in LOOPCORE_PLUGINS, in that order."""
    if text is not None:
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

    `plugins` is text (`loopcore.plugin_options` has the grammar), or texts and objects; the name of an object is None.
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
    """Make the plugins of LOOPCORE_PLUGINS now, for the first loop that this process makes with them.

    So `loopcore run` hears of a plugin that cannot be made before the program starts.
    """
    made = load_plugins()
    if made:
        _made_ahead[os.getpid(), os.environ.get(PLUGIN_VARIABLE, "")] = list(made)


def _wish(spec: str | None, asked: str | None) -> tuple[str, str]:
    """Return what is asked for, and how to call that in a message. An empty variable counts as unset."""
    if spec is not None:
        if not isinstance(spec, str):
            raise UsageError(
                f"backend= takes a name, names with commas between, or a backend that is made, not {spec!r}; "
                f"give yours a name with register_backend(name, factory)"
            )
        return spec, asked or f"backend={spec!r}"
    spec = read(BACKEND_VARIABLE)
    return (spec, f"{BACKEND_VARIABLE}={spec}") if spec.strip() else (AUTO, AUTO)


def _chosen_before(spec: str, asked: str) -> Choice | None:
    """Return what `spec` stood for the last time, if that can still run here. The platform has not changed since."""
    choice: Choice | None = BACKENDS.choices.get((spec, asked))
    try:
        return choice if choice is not None and choice.factory.probe().available else None
    except Exception:
        return None  # what is wrong is said where all are tried


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
    raise UsageError(f"{asked} names no backend; name one, or leave it out for {AUTO!r}")


class _WrongSettingError(UsageError):
    """A backend's `probe` complained about what the user has set."""


def _available(declaration: Declaration) -> BackendFactory:
    """Return the factory that `declaration` stands for, after its probe said that it can run here."""
    factory = check_factory(declaration.name, BACKENDS.load(declaration), str(declaration))
    try:
        result = factory.probe()
    except UsageError as exc:
        raise _WrongSettingError(f"backend {declaration.name!r}: {exc}") from exc.__cause__
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
