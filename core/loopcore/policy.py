"""The event loop policy, for programs that take their loop from asyncio's global state.

Prefer `loopcore.run` or a loop factory: policies are deprecated from Python 3.14 on and removed in 3.16. Without
policies, `EventLoopPolicy` is None and `install` raises AttributeError; its message says what to use instead.
"""

import asyncio
import sys
import warnings
from typing import TYPE_CHECKING, Any

from loopcore.loop import EventLoop
from loopcore.runner import new_event_loop

HAS_POLICIES = sys.version_info < (3, 16)


def _default_policy_class() -> Any:
    with warnings.catch_warnings():
        # The program should see the deprecation when it installs a policy, not when it imports loopcore.
        warnings.simplefilter("ignore", DeprecationWarning)
        return asyncio.DefaultEventLoopPolicy


if TYPE_CHECKING:

    class EventLoopPolicy(asyncio.DefaultEventLoopPolicy):
        """asyncio's default policy on this platform, except that new loops are loopcore's."""

        def new_event_loop(self) -> EventLoop: ...

elif HAS_POLICIES:

    class EventLoopPolicy(_default_policy_class()):
        """asyncio's default policy on this platform, except that new loops are loopcore's."""

        def new_event_loop(self) -> EventLoop:
            return new_event_loop()

else:
    EventLoopPolicy = None


def install() -> None:
    """Make every loop that asyncio creates from now on a loopcore loop, in the whole process.

    For programs that call `asyncio.run` in places you cannot change; everywhere else prefer `loopcore.run`, which is
    explicit. Issues asyncio's own DeprecationWarning from Python 3.14 on.
    """
    if not HAS_POLICIES:
        raise AttributeError(
            "this Python has no event loop policies: use loopcore.run(), or asyncio.Runner(loop_factory=new_event_loop)"
        )
    asyncio.set_event_loop_policy(EventLoopPolicy())
