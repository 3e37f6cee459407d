"""A plugin that implements every observing hook, and records its calls."""

from collections.abc import Callable
from typing import Any

import loopcore
from loopcore.hooks import specs as hookspecs

HOOKS = tuple(name for name in vars(hookspecs) if name.startswith("loopcore_") and name not in hookspecs.POLICY_HOOKS)


class Recorder:
    """Implements every observing hook of `hookspecs`, with all its arguments; `seen` holds the calls, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []

    def names(self) -> set[str]:
        return {hook for hook, _ in self.seen}

    def of(self, hook: str) -> list[dict[str, Any]]:
        return [arguments for name, arguments in self.seen if name == f"loopcore_{hook}"]


def _implement(hook: str) -> Callable[..., None]:
    spec = getattr(hookspecs, hook)
    names = spec.__code__.co_varnames[: spec.__code__.co_argcount]
    arguments = ", ".join(names)
    pairs = ", ".join(f"{name!r}: {name}" for name in names)
    scope: dict[str, Any] = {}
    exec(f"def {hook}(self, {arguments}): self.seen.append(({hook!r}, {{{pairs}}}))", scope)
    made: Callable[..., None] = loopcore.hookimpl(scope[hook])
    return made


for _hook in HOOKS:
    setattr(Recorder, _hook, _implement(_hook))
