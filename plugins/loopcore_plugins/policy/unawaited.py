"""Coroutines that were never awaited: reported to listeners before the interpreter warns of them.

When a coroutine that never ran is destroyed, the interpreter calls `warnings._warn_unawaited_coroutine`. That
function is replaced here while there is a listener, and is always called. The warning itself would be a poor
source: filters drop it, `default` shows it once a line, `error` turns it into an unraisable exception, and
a program that replaces `showwarning`, as test runners do, hides it.
"""

import os
import threading
import warnings
import weakref
from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from loopcore.errors import UsageError

if TYPE_CHECKING:
    from loopcore_plugins.policy.strict import Strict

_HOOK = "_warn_unawaited_coroutine"

_listeners: "weakref.WeakSet[Strict]" = weakref.WeakSet()
_lock = threading.RLock()
_original: Callable[[Any], None] | None = None


def listen(listener: "Strict") -> None:
    """Notify `listener` from now on. Raises UsageError if this interpreter cannot report unawaited coroutines."""
    global _original
    with _lock:
        if _original is None:
            if not hasattr(warnings, _HOOK):
                raise UsageError(
                    "this interpreter does not report coroutines that were never awaited; use strict:coroutines=no"
                )
            _original = getattr(warnings, _HOOK)
            setattr(warnings, _HOOK, _tell)
        _listeners.add(listener)


def ignore(listener: "Strict") -> None:
    """Stop notifying `listener`; with the last listener, restore the interpreter's function."""
    global _original
    with _lock:
        _listeners.discard(listener)
        # Code that has replaced our replacement continues to call it.
        if not _listeners and getattr(warnings, _HOOK, None) is _tell:
            setattr(warnings, _HOOK, _original)
            _original = None


def _tell(coroutine: "CoroutineType[Any, Any, Any]") -> None:
    """Notify the listeners whose loop runs in this thread; if there is none, as in a collection, notify all."""
    with _lock:
        original = _original
        listeners = list(_listeners)
    for listener in [each for each in listeners if each.concerns_this_thread()] or listeners:
        listener.note_unawaited(coroutine)
    if original is not None:
        original(coroutine)


def _reset_in_child() -> None:
    """In a forked child: another thread of the parent may have held the lock."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_in_child)
