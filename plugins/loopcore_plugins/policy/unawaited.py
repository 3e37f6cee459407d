"""Coroutines that were never awaited: told to whoever wants to know, before the interpreter warns of them.

When a coroutine is destroyed that never ran, the interpreter calls `warnings._warn_unawaited_coroutine`. That
function is replaced here while somebody listens, and called in any case. The warning itself would be a poor
source: filters drop it, `default` shows it once a line, `error` turns it into an unraisable exception, and
whoever replaces `showwarning`, as test runners do, takes it away.
"""

import threading
import warnings
import weakref
from collections.abc import Callable
from types import CoroutineType
from typing import Any, Protocol

from loopcore.errors import UsageError

_HOOK = "_warn_unawaited_coroutine"


class Listener(Protocol):
    """Who wants to know."""

    def concerns_this_thread(self) -> bool:
        """Tell whether the loop in question runs in the calling thread."""

    def note_unawaited(self, coroutine: "CoroutineType[Any, Any, Any]") -> None:
        """Take note of `coroutine`, which is being destroyed. Thread: any. Must not raise."""


_listeners: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.RLock()
_original: Callable[[Any], None] | None = None


def listen(listener: Listener) -> None:
    """Tell `listener` from now on. Raises UsageError if this interpreter has no means for it."""
    global _original
    with _lock:
        if _original is None:
            if not hasattr(warnings, _HOOK):
                raise UsageError(
                    "this interpreter does not tell of coroutines that were never awaited; use strict:coroutines=no"
                )
            _original = getattr(warnings, _HOOK)
            setattr(warnings, _HOOK, _tell)
        _listeners.add(listener)


def ignore(listener: Listener) -> None:
    """Tell `listener` no more; with the last one, leave the interpreter as it was."""
    global _original
    with _lock:
        _listeners.discard(listener)
        # Who has replaced our replacement goes on calling it.
        if not _listeners and getattr(warnings, _HOOK, None) is _tell:
            setattr(warnings, _HOOK, _original)
            _original = None


def _tell(coroutine: "CoroutineType[Any, Any, Any]") -> None:
    """Tell the loop of this thread; where there is none, for the collector may run anywhere, all of them."""
    with _lock:
        original = _original
        listeners = list(_listeners)
    for listener in [each for each in listeners if each.concerns_this_thread()] or listeners:
        listener.note_unawaited(coroutine)
    if original is not None:
        original(coroutine)
