"""Plugins: those of one loop, ordered by pluggy, checked when they are added, and resolved into plain calls.

The only module of the kernel that uses pluggy. It is imported with the first plugin: most programs have none.
"""

import inspect
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TypeAlias

import pluggy

from loopcore.errors import UsageError
from loopcore.hooks import specs

Call: TypeAlias = Callable[..., object]
Calls: TypeAlias = tuple[tuple[object, Call], ...]
"""The implementations of a hook in the order in which they are called: each with its plugin."""


class Plugins:
    """The plugins of a loop. Thread: whichever holds the lock of the loop's Probes."""

    def __init__(self) -> None:
        self._manager = pluggy.PluginManager(specs.PROJECT)
        self._manager.add_hookspecs(specs)

    def __contains__(self, plugin: object) -> bool:
        return self._manager.is_registered(plugin)

    def name_of(self, plugin: object) -> str | None:
        """Return the name of `plugin`; None if it is not registered."""
        return self._manager.get_name(plugin)

    def named(self) -> list[tuple[str, object]]:
        """Return name and object of every plugin, in order of registration."""
        return self._manager.list_name_plugin()

    def add(self, plugin: object, name: str | None) -> str:
        """Add a plugin and return its name. Raises UsageError, and adds nothing, in the cases of `Probes.register`."""
        if isinstance(plugin, type):
            label = plugin.__qualname__ if name is None else repr(name)
            raise UsageError(f"plugin {label} is a class; pass an instance: {plugin.__name__}()")
        if plugin is None:
            label = "None is not a plugin" if name is None else f"plugin {name!r} is None"
            raise UsageError(f"{label}: pass an object with hooks")
        manager = self._manager
        if manager.is_registered(plugin):
            raise UsageError(f"plugin {name or plugin!r} is registered already")
        if name is not None and manager.has_plugin(name):
            raise UsageError(f"there is a plugin {name!r} already; names are given once")
        try:
            registered = manager.register(plugin, name or _name_for(plugin, manager))
            manager.check_pending()
        except (ValueError, pluggy.PluginValidationError) as exc:
            if manager.is_registered(plugin) and isinstance(exc, pluggy.PluginValidationError):
                manager.unregister(plugin)
            raise UsageError(f"plugin {name or plugin!r} cannot be registered: {exc}") from exc
        assert registered is not None  # None only for blocked names, and no name is blocked here
        try:
            _check_hooks(manager, plugin, registered)
        except UsageError:
            manager.unregister(plugin)
            raise
        return registered

    def remove(self, plugin: object) -> None:
        """Remove a plugin that is registered."""
        self._manager.unregister(plugin)

    def reorder(self, names: Sequence[str]) -> None:
        """Move the named plugins to the front, in this order."""
        plugins = dict(self.named())
        others = [name for name in plugins if name not in names]
        for name in [*others, *reversed(names)]:  # the last one registered is called first
            self._manager.unregister(name=name)
            self._manager.register(plugins[name], name)

    def calls(self, hook: str, names: tuple[str, ...] | None = None) -> Calls:
        """Return the implementations of `hook`; they take `names` by position, or else the arguments of the spec."""
        caller = getattr(self._manager.hook, hook)
        given = caller.spec.argnames if names is None else names
        # pluggy lists implementations in reverse calling order.
        return tuple(
            (each.plugin, _positional(each.function, each.argnames, given)) for each in reversed(caller.get_hookimpls())
        )


_DEFERRED = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
"""Tests for functions that do nothing when called, but return an object that has to be run."""


def _name_for(plugin: object, manager: pluggy.PluginManager) -> str:
    """Return a name for a plugin that was given none, so that the log and `reorder` can identify it."""
    own = getattr(plugin, "__name__", None)
    first = name = own if isinstance(own, str) else type(plugin).__name__
    number = 1
    while manager.has_plugin(name):
        number += 1
        name = f"{first}-{number}"
    return name


def _check_hooks(manager: pluggy.PluginManager, plugin: object, name: str) -> None:
    """Raise UsageError if `plugin` has no hooks, or has one that wraps others: plugins observe."""
    callers = manager.get_hookcallers(plugin) or []
    if not callers:
        raise UsageError(f"plugin {name!r} has no hooks; mark its functions with @loopcore.hookimpl")
    for caller in callers:
        if caller.name in specs.POLICY_HOOKS:
            owners = [each.plugin_name for each in caller.get_hookimpls() if each.plugin is not plugin]
            if owners:
                raise UsageError(f"plugins {owners[0]!r} and {name!r} both decide {caller.name}; leave one of them out")
        for implementation in caller.get_hookimpls():
            if implementation.plugin is not plugin:
                continue
            if implementation.hookwrapper or implementation.wrapper:
                raise UsageError(f"{caller.name} of plugin {name!r} is a wrapper; observers cannot wrap")
            if any(kind(implementation.function) for kind in _DEFERRED):
                raise UsageError(f"{caller.name} of plugin {name!r} would never run: it has an `async` or a `yield`")


def _positional(function: Call, wanted: tuple[str, ...], given: tuple[str, ...]) -> Call:
    """Return `function` as a callable that takes all arguments of the spec, in the spec's order."""
    if wanted == given:
        return function
    if not wanted:
        return lambda *_: function()
    if len(wanted) == 1:
        position = given.index(wanted[0])
        return lambda *arguments: function(arguments[position])
    select = itemgetter(*map(given.index, wanted))
    return lambda *arguments: function(*select(arguments))
