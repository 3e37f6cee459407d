"""Contexts that handles share until they run (docs/adr/0006).

What is scheduled runs in a copy of the context it was scheduled in. As long as the current one holds the same, handles
and timers have one copy in common, the *template*, which nobody enters and nobody is given: whoever runs, or is asked
for its context, makes its own from it. And a callback that has left no trace in its context, and has given it to
nobody, leaves it for the *spare* of the next one with the same template. A burst of callbacks has two in all.

Compiled only. Interpreted, without the GIL and where contexts are not known, every handle has a copy at once.
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
    """The template of one loop, and the context that its callbacks take turns in. Used while the loop runs."""

    __slots__ = ("_template", "_spare", "_thread")  # the last is C's alone

    def __init__(self) -> None:
        self._template: Context | None = None
        self._spare: Context | None = None

    def begin(self) -> None:
        """Note that a run begins in this thread: its callbacks enter their contexts without a call. Compiled only."""
        if cython.compiled:
            self._thread = current_thread()

    def end(self) -> None:
        """Note that the run has ended, and keep no variable alive. Compiled only."""
        if cython.compiled:
            self._thread = cython.NULL
        self.forget()

    def renew(self) -> Context:
        """Return a new copy of the current context, and share it from now on if contexts are known. Thread: any."""
        context: Context = copy_context()
        if cython.compiled and contexts_are_known():
            stale, spare = self._template, self._spare  # go last: with them may go what schedules something
            self._template = context
            self._spare = None  # it has what the template before had
            del stale, spare
        return context

    def forget(self) -> None:
        """Keep no variable alive: before a wait, at the end of a run, and when no handle has the template any more."""
        if self._template is None and self._spare is None:
            return
        stale, spare = self._template, self._spare  # as above
        self._template = None
        self._spare = None
        del stale, spare


def share_contexts(wanted: bool) -> bool:
    """Have handles share contexts until they run, if `wanted` and if this Python is known; return whether they do.

    They do from the import on. Without, as interpreted, each handle has a copy at once.
    """
    if not cython.compiled:
        return False
    return bool(know_contexts() if wanted else doubt_contexts())


share_contexts(True)
