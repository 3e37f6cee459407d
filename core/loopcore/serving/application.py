"""Find an ASGI application: import it, or call its factory, once for each loop that does not share one."""

import importlib
import importlib.util
import os
import pkgutil
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from loopcore.errors import UsageError
from loopcore.group import Member
from loopcore.text import did_you_mean

_executing: Final = threading.Lock()


def find_application(target: str) -> None:
    """Raise UsageError if MODULE:ATTRIBUTE has the wrong form or names a module that does not exist; import nothing.

    Packages that the module is in are imported.
    """
    name, _ = _parse(target)
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise _no_module(error.name or name, target) from None
    if spec is None:
        raise _no_module(name, target)


def load_application(target: str, *, factory: bool = False, copy: bool = False) -> Any:
    """Return the object that MODULE:ATTRIBUTE names, or what it returns if it is a `factory`.

    With `copy`, the module is executed again, apart from the one in `sys.modules`, so the object is a new one; modules
    that it imports are not executed again. Raises UsageError if the object is missing, or a second one cannot be made;
    what the module raises while it is imported passes through.
    """
    module_name, attribute = _parse(target)
    module = _import(module_name, target)
    if copy and not factory:
        module = _execute_again(module, target)
    found: object = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            hint = did_you_mean(name, [each for each in dir(found) if not each.startswith("_")])
            raise UsageError(f"module {module_name!r} has no {attribute!r}{hint}; APP is MODULE:ATTRIBUTE")
        found = getattr(found, name)
    if not callable(found):
        raise UsageError(f"{target!r} is {_kind(found)}, not an ASGI application: an ASGI application is callable")
    return _call(found, target) if factory else found


def application_of(target: str, factory: bool, first: Any, member: Member) -> Any:
    """Return the application object of a loop: `first` for the first loop, if it is loaded; otherwise another one."""
    is_first = member.index == member.generation == 0
    if is_first and first is not None:
        return first
    return load_application(target, factory=factory, copy=member.kind == "threads" and not is_first)


def _parse(target: str) -> tuple[str, str]:
    module, _, attribute = target.partition(":")
    if module.endswith(".py") or "/" in module:
        likely = module.removesuffix(".py").strip("./").replace("/", ".")
        raise UsageError(f"{target!r} is a file; name its module, as in {likely}:{attribute or 'app'}")
    if not module or not attribute:
        raise UsageError(f"{target!r} names no application; write MODULE:ATTRIBUTE, as in {module or 'app'}:app")
    return module, attribute


def _import(name: str, target: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise  # a module that the application needs
        raise _no_module(error.name, target) from None


def _no_module(name: str, target: str) -> UsageError:
    near = did_you_mean(name, sorted(each.name for each in pkgutil.iter_modules([os.getcwd()])))
    return UsageError(f"cannot find module {name!r} for {target!r}{near}; looked in {os.getcwd()} and on sys.path")


def _execute_again(module: ModuleType, target: str) -> ModuleType:
    spec = module.__spec__
    if spec is None or spec.loader is None:
        raise UsageError(f"{target!r} cannot be loaded once for each loop: {module.__name__} has no loader{_WAYS}")
    copy = importlib.util.module_from_spec(spec)
    with _executing:
        try:
            spec.loader.exec_module(copy)
        except Exception as error:
            raise UsageError(
                f"module {module.__name__!r} cannot be executed once for each loop ({type(error).__name__}: {error})"
                f"{_WAYS}"
            ) from error
        finally:
            sys.modules[module.__name__] = module
    return copy


_WAYS: Final = "; use --factory with a function that returns an application, --shared-app, or --processes"


def _call(factory: Callable[[], Any], target: str) -> Any:
    try:
        app = factory()
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is not None:
            raise  # its own
        raise UsageError(f"{target!r} cannot be called without arguments, as a factory is: {error}") from None
    if hasattr(app, "__await__"):
        getattr(app, "close", lambda: None)()
        raise UsageError(
            f"{target!r} is a coroutine function, and a factory is a plain one; leave --factory out for an application"
        )
    if not callable(app):
        raise UsageError(f"{target!r} returned {_kind(app)}, not an ASGI application")
    return app


def _kind(value: object) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
