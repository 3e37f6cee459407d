"""How a program marks the priority and the group of its work: two context variables.

Every task and every callback runs in a context, a copy of the one that it was created in. So a mark applies to work
scheduled inside the `with`, to work scheduled by that, and, set inside a task, to that task from its next
step on. Without the plugins that read them the marks have no effect.
"""

import operator
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_priority: ContextVar[int] = ContextVar("loopcore_plugins.policy.priority")
_group: ContextVar[Hashable] = ContextVar("loopcore_plugins.policy.group")


@contextmanager
def priority(level: int) -> Iterator[None]:
    """Give work scheduled inside priority `level`: the greater goes first. Unmarked work has 0."""
    token = _priority.set(operator.index(level))
    try:
        yield
    finally:
        _priority.reset(token)


@contextmanager
def group(name: Hashable) -> Iterator[None]:
    """Assign work scheduled inside to the group `name`: a tenant, a user. All unmarked work is one more group."""
    hash(name)
    token = _group.set(name)
    try:
        yield
    finally:
        _group.reset(token)


def priority_of(runnable: Any) -> int:
    """Return the priority of a runnable. Steps of transports have no context, and count as unmarked."""
    try:
        level: int = runnable.get_context().get(_priority, 0)
    except AttributeError:
        return 0
    return level


def group_of(runnable: Any) -> Hashable:
    """Return the group of a runnable; None is that of unmarked work."""
    try:
        name: Hashable = runnable.get_context().get(_group)
    except AttributeError:
        return None
    return name
