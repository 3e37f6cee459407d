"""Contexts that handles share until they run (docs/adr/0006).

A callback runs in a copy of the context in which it was scheduled. While the current context holds the same variables,
handles and timers share one copy, the *template*, which is never entered and never handed out: a callback that runs, or
is asked for its context, makes its own copy of the template. A callback that has left its context unchanged and has not
handed it out leaves it as the *spare*, for the next callback with the same template. So a burst of callbacks needs two
contexts in all.

Compiled only. Interpreted, without the GIL, and where the layout of contexts is not known, every handle gets a copy at
once.
"""

from contextvars import Context

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore.native.contexts import (
        contexts_are_known,
        current_thread,
        doubt_contexts,
        know_contexts,
    )
    from cython.cimports.loopcore.native.cpython import copy_context
else:
    from contextvars import copy_context


class ContextPool:
    """The template of one loop, and the spare that its callbacks run in by turns. Used while the loop runs."""

    __slots__ = ("_template", "_spare", "_thread")  # `_thread` exists in C only

    def __init__(self) -> None:
        self._template: Context | None = None
        self._spare: Context | None = None

    def begin(self) -> None:
        """Note that a run begins in this thread: its callbacks enter their contexts without a call. Compiled only."""
        if cython.compiled:
            self._thread = current_thread()

    def end(self) -> None:
        """Note that the run has ended, and drop both contexts. Compiled only."""
        if cython.compiled:
            self._thread = cython.NULL
        self.forget()

    def renew(self) -> Context:
        """Return a new copy of the current context; share it from now on if the layout is known. Thread: any."""
        context: Context = copy_context()
        if cython.compiled and contexts_are_known():
            stale, spare = self._template, self._spare  # released last: a finalizer may schedule work
            self._template = context
            self._spare = None  # it holds the variables of the previous template
            del stale, spare
        return context

    def forget(self) -> None:
        """Drop both contexts: before a wait, at the end of a run, when no handle uses the template any more."""
        if self._template is None and self._spare is None:
            return
        stale, spare = self._template, self._spare  # as above
        self._template = None
        self._spare = None
        del stale, spare


def share_contexts(wanted: bool) -> bool:
    """Make handles share contexts until they run, if `wanted` and if the layout is known; return whether they do.

    Sharing is on from the import. Without it each handle gets a copy at once, as in the pure build.
    """
    if not cython.compiled:
        return False
    return bool(know_contexts() if wanted else doubt_contexts())


share_contexts(True)
