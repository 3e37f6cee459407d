"""Runnable: whatever the ready queue and the readiness table can hold.

A callback's Handle, a Task that is due for its next step, the reading half of a transport: the tick treats
them alike and makes one virtual call for each. That a Task stands in the queue itself is what makes waking
it cheap: no Handle, no `call_soon`, no copy of a context (docs/adr/0003).
"""


class Runnable:
    """Base of everything the tick can run."""

    __slots__ = ()

    def _run(self) -> None:
        """Do the work that is due. Thread: the loop's own.

        Reports its own failures; only SystemExit and KeyboardInterrupt may leave it, and end the run.
        """
        raise NotImplementedError
