"""Policies: behaviour of a loop beyond asyncio's rules, each in a plugin. docs/reference/plugins/policy.md."""

from loopcore_plugins.policy.budget import Budget
from loopcore_plugins.policy.fairness import Fair
from loopcore_plugins.policy.keep import Keep
from loopcore_plugins.policy.marks import group, priority
from loopcore_plugins.policy.priorities import Priority
from loopcore_plugins.policy.shed import Shed
from loopcore_plugins.policy.strict import Mistake, Strict, StrictFailure

__all__ = ["Budget", "Fair", "Keep", "Mistake", "Priority", "Shed", "Strict", "StrictFailure", "group", "priority"]
