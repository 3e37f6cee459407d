"""Probes: the plugins of one loop, resolved into calls that are cheap for the tick.

pluggy stores and orders the plugins. A pluggy call, even of a hook without implementations, costs about a microsecond,
more than running a callback. So the hooks of the tick and of every callback are *resolved* when the set of plugins
changes, into flat tuples of plain calls, and one flag per group (`watching_ticks`, `watching_handles` ...) says whether
there are any. The loop keeps copies of those flags where testing them costs nothing (docs/adr/0016).
"""

import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from loopcore.errors import UsageError
from loopcore.log import plugin_logger

if TYPE_CHECKING:
    from loopcore.kernel.plugins import Call, Calls, Plugins
    from loopcore.kernel.scheduler import Scheduler


class Probes:
    """The plugins of a loop. Thread: the loop's own, except that `cold` and `fire` may be called from any."""

    # Class attributes until the first plugin is registered, which is rare: they make creating a loop faster. pluggy and
    # the hook specs are imported only then.
    _plugins: "Plugins | None" = None
    _resolved: "Mapping[str, Calls]" = MappingProxyType({})
    _policies: "Mapping[str, tuple[object, Call]]" = MappingProxyType({})
    watching_ticks: bool = False
    watching_handles: bool = False
    watching_transports: bool = False
    watching_jobs: bool = False
    deciding: bool = False
    """Whether any policy is registered."""
    observer_makers: "Calls" = ()
    """The implementations of `loopcore_make_observer`."""

    def __init__(self, loop: "Scheduler") -> None:
        self.belong_to(loop)
        self.failures: dict[str, int] = {}
        """How often each plugin (by name) was removed because it raised."""
        self._lock = threading.RLock()
        """Held while the set of plugins changes: a plugin that raises in a pool's thread is removed in that thread."""

    def renew(self) -> None:
        """Called in a forked child: the lock may be held by a thread of the parent that does not exist in the child."""
        self._lock = threading.RLock()

    @property
    def loop(self) -> "Scheduler | None":
        """The loop that owns these probes, notified when the set of plugins changes; None once it is freed."""
        return self._loop()

    def belong_to(self, loop: "Scheduler") -> None:
        """Become the probes of `loop`. The reference is weak, because the loop refers to its probes."""
        self._loop: Callable[[], Scheduler | None] = weakref.ref(loop)

    def register(self, plugin: object, name: str | None = None) -> str:
        """Add a plugin, also while the loop runs; return its name, by default its `__name__` or its class's.

        Raises UsageError if it or the name is already registered, if it has a hook that does not exist, takes arguments
        that the hook does not have, or is a coroutine function, if it wraps other plugins, or if it decides a policy
        that another plugin decides.
        """
        with self._lock:
            registered = self._register(plugin, name)
        for call in self._own_calls("loopcore_plugin_registered", plugin):
            self._call("loopcore_plugin_registered", plugin, call, (self.loop, plugin))
        return registered

    def _register(self, plugin: object, name: str | None) -> str:
        if self._plugins is None:
            from loopcore.kernel.plugins import Plugins

            self._plugins = Plugins()
        registered = self._plugins.add(plugin, name)
        self._resolve(self._plugins)
        return registered

    def unregister(self, plugin: object) -> None:
        """Remove a plugin, also while the loop runs. Raises UsageError if it is not registered."""
        with self._lock:
            if self._plugins is None or plugin not in self._plugins:
                raise UsageError(f"plugin {plugin!r} is not registered with this loop")
            farewells = self._own_calls("loopcore_plugin_unregistered", plugin)
            name = self._plugins.name_of(plugin)
            self._plugins.remove(plugin)
            self._resolve(self._plugins)
        for farewell in farewells:
            try:
                farewell(self.loop, plugin)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException:
                plugin_logger.exception("plugin %r raised in loopcore_plugin_unregistered", name)

    def plugins(self) -> list[tuple[str, object]]:
        """Return name and object of every registered plugin, in order of registration: the last is called first."""
        return [] if self._plugins is None else self._plugins.named()

    def reorder(self, *names: str) -> None:
        """Call the named plugins first, in this order, and then the others, in their previous order.

        The effect is that of registering them again, but without a gap and without a notification. `tryfirst` and
        `trylast` of a single hook still take precedence. Raises UsageError for a name that is not registered, or that
        occurs twice.
        """
        with self._lock:
            plugins = dict(self.plugins())
            for name in names:
                if name not in plugins or names.count(name) > 1:
                    raise UsageError(f"cannot reorder plugins: {name!r} is not registered, or named twice")
            if self._plugins is not None:
                self._plugins.reorder(names)
                self._resolve(self._plugins)

    def cold(self, hook: str, **arguments: object) -> None:
        """Call a cold hook; `arguments` are those of its spec."""
        if self._plugins is None:
            return
        for plugin, call in self._plugins.calls(hook, tuple(arguments)):
            self._call(hook, plugin, call, tuple(arguments.values()))

    def fire(self, hook: str, *arguments: object) -> None:
        """Call a tick or hot hook; `arguments` are those of its spec, in order."""
        for plugin, call in self._resolved[hook]:
            self._call(hook, plugin, call, arguments)

    def owner(self, hook: str) -> object | None:
        """Return the plugin that implements a policy hook, or None."""
        owned = self._policies.get(hook)
        return None if owned is None else owned[0]

    def ask(self, hook: str, *arguments: object, convert: Callable[[Any], Any] | None = None) -> Any:
        """Return the decision of a policy hook's owner, after `convert`; None without an owner, or if either raises."""
        owned = self._policies.get(hook)
        if owned is None:
            return None
        try:
            decision = owned[1](*arguments)
            return decision if convert is None or decision is None else convert(decision)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            self.remove_failed(hook, owned[0])
            return None

    def _own_calls(self, hook: str, plugin: object) -> "list[Call]":
        """Return the implementations by `plugin` of a hook that is called for each plugin separately."""
        if self._plugins is None:
            return []
        return [call for owner, call in self._plugins.calls(hook, ("loop", "plugin")) if owner is plugin]

    def _call(self, hook: str, plugin: object, call: "Call", arguments: tuple[object, ...]) -> None:
        try:
            call(*arguments)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException:
            self.remove_failed(hook, plugin)

    def remove_failed(self, hook: str, plugin: object, error: BaseException | None = None) -> None:
        """Remove `plugin`, which raised `error` or the current exception in `hook`, or in an object from there."""
        with self._lock:
            name = None if self._plugins is None else self._plugins.name_of(plugin)
            if name is None:
                return  # it failed in a nested call or another thread, and is already removed
            self.failures[name] = self.failures.get(name, 0) + 1
            message = "plugin %r raised in %s and was taken out of the loop"
            plugin_logger.error(message, name, hook, exc_info=sys.exc_info() if error is None else error)
            self.unregister(plugin)

    def _resolve(self, plugins: "Plugins") -> None:
        from loopcore.hooks import specs

        self._resolved = {hook: plugins.calls(hook) for hooks in specs.GROUPS.values() for hook in hooks}
        for group, hooks in specs.GROUPS.items():
            setattr(self, f"watching_{group}", any(self._resolved[hook] for hook in hooks))
        self._policies = {hook: owners[0] for hook in specs.POLICY_HOOKS if (owners := plugins.calls(hook))}
        self.deciding = bool(self._policies)
        self.observer_makers = plugins.calls("loopcore_make_observer")
        loop = self.loop
        if loop is not None:
            loop._note_plugins()


def as_timeout(value: Any) -> float:
    """Return a plugin's answer as seconds to wait. Raises what `float` raises, UsageError if it is negative."""
    timeout = float(value)
    if not timeout >= 0.0:
        raise UsageError(f"a timeout is a number of seconds, 0 or more, not {value!r}")
    return timeout
