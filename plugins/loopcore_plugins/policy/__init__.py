"""Policies: what a loop does beyond asyncio's rules, each a plugin of its own. docs/reference/plugins/policy.md."""

from loopcore_plugins.policy.keep import Keep
from loopcore_plugins.policy.strict import Strict, StrictFailure

__all__ = ["Keep", "Strict", "StrictFailure"]
