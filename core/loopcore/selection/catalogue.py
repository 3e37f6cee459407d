"""The catalogue of an entry-point group: which distribution declares which name. Read once, imported on demand.

Names are read from the metadata of the installed distributions, loopcore's own and others alike. `own`, which `auto`
uses, reads loopcore's own from a table instead. Code is imported only when it is asked for by name, and then kept.

Thread: any.
"""

import sys
from collections.abc import Callable, Collection
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple

from loopcore.errors import LoopcoreError, UsageError
from loopcore.text import did_you_mean
from loopcore.version import __version__

if TYPE_CHECKING:
    from loopcore.selection.discovery import Choice

AUTO: Final = "auto"
"""The word for loopcore's own choice; no backend or plugin may have this name."""

OWN_DISTRIBUTION: Final = "loopcore"


class Declaration(NamedTuple):
    """A distribution's claim that a name stands for an object; `load` imports the object."""

    name: str
    target: str
    """`module:attribute`, for messages."""
    distribution: str
    """Name and version of the declaring distribution, or `register_backend()`."""
    own: bool
    load: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.target} of {self.distribution}"

    def label(self, noun: str) -> str:
        """Return `noun` and the name, for messages; and the distribution if it is not loopcore's own."""
        return f"{noun} {self.name!r}" + ("" if self.own else f" ({self})")


class Catalogue:
    """The names of one entry-point group, and the names registered at run time without an installation."""

    def __init__(self, group: str, noun: str, import_failure: type[LoopcoreError], known: Collection[str] = ()) -> None:
        """`known` are names that are valid even if no distribution declares them: other platforms have them."""
        self.group = group
        self._noun = noun
        self._import_failure = import_failure
        self._known = known
        self._installed: dict[str, list[Declaration]] | None = None
        self._registered: dict[str, Declaration] = {}
        self._loaded: dict[Declaration, object] = {}
        self.choices: dict[tuple[str, str], Choice] = {}
        """Earlier choices, by the specification and its wording in messages. Replaced by a new dict when the catalogue
        changes: a choice being made at that moment is stored in the old one."""

    def refresh(self) -> None:
        """Forget what was read from the installed distributions; the next lookup reads them again."""
        self._installed = None
        self._loaded.clear()
        self.choices = {}

    def declarations(self, name: str) -> list[Declaration]:
        """Return all declarations of `name`: none, one, or too many."""
        registered = self._registered.get(name)
        return [*self._scan().get(name, ()), *([registered] if registered else [])]

    def names(self) -> list[str]:
        """Return every name declared, sorted."""
        return sorted({*self._scan(), *self._registered})

    def own(self, name: str) -> Declaration | None:
        """Return loopcore's own declaration of `name`; None if it has none.

        No metadata are read. That takes longer than all the rest of a program's first loop, and a copy of loopcore may
        have none: frozen, vendored, or on PYTHONPATH.
        """
        target = self._own_targets().get(name)
        if target is None:
            return None
        return Declaration(name, target, f"{OWN_DISTRIBUTION} {__version__}", True, partial(_import, target))

    def find(self, name: str) -> Declaration:
        """Return the one declaration of `name`. Raises UsageError if there is none, or more than one."""
        found = self.declarations(name)
        if len(found) == 1:
            return found[0]
        self.check_known(name)
        if not found:
            raise UsageError(f"{self._noun} {name!r} is not installed; {self._what_exists()}")
        raise UsageError(
            f"{self._noun} {name!r} is declared {len(found)} times: by {' and by '.join(map(str, found))}; "
            "uninstall or rename one of them"
        )

    def check_known(self, name: str) -> None:
        """Raise UsageError if `name` is neither declared nor known: most likely a typo."""
        if name in self._known or self.declarations(name):
            return
        hint = did_you_mean(name, sorted({*self.names(), *self._known}))
        raise UsageError(f"there is no {self._noun} {name!r}{hint}; {self._what_exists()}")

    def load(self, declaration: Declaration) -> object:
        """Return the object that `declaration` names; import it unless that has been done."""
        loaded = self._loaded.get(declaration, self)  # not `in`: another thread may refresh the catalogue meanwhile
        if loaded is self:
            try:
                loaded = self._loaded[declaration] = declaration.load()
            except LoopcoreError as exc:  # says already what is missing
                raise self._import_failure(blame(declaration.label(self._noun), declaration.name, exc)) from exc
            except (Exception, SystemExit) as exc:  # a module may end the process when it is imported
                raise self._import_failure(
                    f"{self._noun} {declaration.name!r} ({declaration}) cannot be imported: "
                    f"{type(exc).__name__}: {exc}; {_advice(declaration.target, exc)}"
                ) from exc
        return loaded

    def register(self, name: str, target: object, by: str) -> None:
        """Make `name` stand for `target` in this process. Raises UsageError if it stands for something else."""
        if not isinstance(name, str) or not name or name == AUTO or any(c == "," or c.isspace() for c in name):
            raise UsageError(f"{name!r} cannot name a {self._noun}: a name is a word without commas, and not {AUTO!r}")
        known = self.declarations(name)
        declaration = Declaration(name, path_of(target), by, False, lambda: target)
        if known and not (name in self._registered and self._registered[name].load() is target):
            raise UsageError(f"{self._noun} {name!r} is declared by {known[0]}; {declaration} needs another name")
        self._registered[name] = declaration
        self.choices = {}

    def unregister(self, name: str) -> None:
        """Undo `register`. Raises UsageError if `name` was not registered."""
        declaration = self._registered.pop(name, None)
        if declaration is None:
            raise UsageError(f"{self._noun} {name!r} was not registered, so it cannot be unregistered")
        self._loaded.pop(declaration, None)
        self.choices = {}

    def _scan(self) -> dict[str, list[Declaration]]:
        installed = self._installed
        if installed is None:
            from importlib import metadata  # here, because importing it adds some milliseconds to a program's start

            installed = {}
            for entry in metadata.entry_points(group=self.group):
                name, version = (entry.dist.name, entry.dist.version) if entry.dist else ("an unknown distribution", "")
                own = name.lower() == OWN_DISTRIBUTION
                made = Declaration(entry.name, entry.value, f"{name} {version}".strip(), own, entry.load)
                installed.setdefault(entry.name, []).append(made)
            any_own = any(each.own for found in installed.values() for each in found)
            if not any_own and not any(metadata.distributions(name=OWN_DISTRIBUTION)):  # this search takes longer
                for name in self._own_targets():
                    if (made_here := self.own(name)) is not None:
                        installed.setdefault(name, []).append(made_here)
            self._installed = installed
        return installed

    def _own_targets(self) -> dict[str, str]:
        """Return the table of entry points that `loopcore_backends` or `loopcore_plugins` has, by name.

        Empty if that package is missing: core may be copied alone, to run on a third party's backend. The group
        `loopcore.commands` has no such package.
        """
        from importlib import util

        package = self.group.replace(".", "_")
        return import_module(package).DECLARED if util.find_spec(package) else {}

    def _what_exists(self) -> str:
        names = self.names()
        if not names:
            return f"none is installed: no distribution has entry points in the group {self.group!r}"
        return "installed: " + ", ".join(names)


def _import(target: str) -> object:
    """Return what `target`, `module:attribute`, names."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def _advice(target: str, error: BaseException) -> str:
    """Return what to do after `target`, `module:attribute`, could not be imported."""
    module = target.partition(":")[0]
    # A module that fails while it is imported is not left in sys.modules.
    has_no_attribute = isinstance(error, AttributeError) and module in sys.modules
    if has_no_attribute or (isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")):
        return (
            "the entry point names something that does not exist: correct it in the distribution's pyproject.toml, "
            "and install the distribution again"
        )
    if "binary incompatibility" in str(error):  # Cython's words, of a compiled subclass
        return (
            "it was compiled for another build of loopcore: install it again from its sources, "
            "with pip's option --no-build-isolation"
        )
    return "install what it needs, or use another one"


def blame(label: str, name: str, error: Exception) -> str:
    """Return the text of `error`, which may begin with `name`, as a message that begins with `label`."""
    text = str(error)
    if text.startswith(f"{name} "):
        return label + text.removeprefix(name)
    return f"{label}: {text.removeprefix(f'{name}: ')}"


def path_of(target: object) -> str:
    """Return `module:name` for a class or function, the repr for anything else; for messages."""
    path = f"{getattr(target, '__module__', '')}:{getattr(target, '__qualname__', '')}"
    return path if len(path) > 1 else repr(target)
