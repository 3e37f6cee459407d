"""The other port: a backend that does the work itself and says when it is done.

A readiness backend (`loopcore.backend`) says that a descriptor is ready, and core makes the system call. A completion
backend is handed the call, as an operation (`loopcore.operations`), and hands back its result. IOCP and io_uring
are made so; `proactor` plays it over any readiness multiplexer. Core runs the same transports over both, and watches
descriptors for `add_reader` through POLL. An entry point or `register_backend` names either kind; a backend that
has `submit` is one of these.

What holds, each with a test in `loopcore.testing.conformance`:

- Exactly one terminal completion per accepted operation, also after `cancel`; `close` returns those it had to end.
- Nothing is called back. Errors of the operating system are OSErrors in completions; `submit` does not raise them.
- An operation keeps its buffers alive and unchanged memory in use until its terminal completion.
- Completions of one operation come in the order of its results. Sends of one descriptor are not reordered if
  one is in flight at a time, which is what core's drivers see to.
- Timers stay in core; timeouts round up.
- `wake` may come from any thread and from a signal handler; so may `cancel` and `close`, in the middle of `wait`,
  because finalizers call them and the collector runs in whichever thread allocates.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard

from loopcore.backend import Capability, ProbeResult
from loopcore.operations import Operation

Completion: TypeAlias = tuple[Operation, Any, bool]
"""The operation, its result or OSError, and whether more will come: false in the terminal one."""


class CompletionBackend(Protocol):
    """A multiplexer that completes operations. Thread: the loop's own, except `wake`, `cancel` and `close`.

    The loop's thread is the one that called `wait` last; until the first wait any is taken for it.
    Any call after `close`, except `close` and `wake`, raises BackendClosedError.
    """

    name: str
    capabilities: frozenset[Capability]

    @classmethod
    def probe(cls) -> ProbeResult:
        """Say whether this backend can run here, cheaply and without side effects."""
        ...

    def submit(self, operation: Operation) -> None:
        """Accept `operation`; it is begun now or, at the latest, in the next `wait`.

        Its descriptor must be non-blocking, except where POLL, files or processes are meant. Raises ValueError for an
        operation that is in flight already, UsageError for one that this backend does not know.
        """
        ...

    def cancel(self, operation: Operation) -> None:
        """End `operation` early. Its terminal completion comes with a later `wait`, as always.

        That is OSError(ECANCELED), or its result if it was done by then; core deals with either. When this returns the
        operation keeps no file open: who closes the descriptor now, closes it. An operation that is not in
        flight, for its terminal completion has been handed out, is left alone.

        Thread: any, also in the middle of `wait`. In another thread than the loop's it is a request, which the current
        `wait` carries out, or else the next; so it may be if a finalizer or a signal handler calls it in the middle of
        another call. A wait that blocks ends with it. Until then the operation may keep its file open. What the wait
        has just taken for it comes before its terminal completion.
        """
        ...

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        """Block until an operation completes, the timeout passes, or `wake` is called; return what has completed.

        `timeout` is in seconds; None waits without limit, 0.0 only looks. As in `ReadinessBackend.wait` it is rounded
        up, and a signal whose Python handler returns does not end it; one whose handler raises does, and what had
        completed by then comes with the next wait. The success of an operation that is `quiet` need not end it
        either, but is never kept for a later wait once this one returns.
        """
        ...

    def wake(self) -> None:
        """Make the current or else the next `wait` return at once. Coalesces. Thread: any; after `close` a no-op."""
        ...

    def close(self) -> Sequence[Operation]:
        """End everything, release the backend's own descriptors; return the operations that had not ended. Idempotent.

        They may be submitted to another backend. What they have brought and nobody was told of is dropped, and an
        accepted connection closed. In a forked child it gives up what is the parent's, without touching that.

        Thread: any, also in the middle of `wait`: that wait ends, with nothing or with BackendClosedError. Such a close
        may return nothing: what had not ended is then returned by the next one. No operation is both told by the wait
        and returned by a close. What the kernel may still write to stays until the kernel is done with it.
        """
        ...


def is_completion_backend(backend: object) -> TypeGuard[CompletionBackend]:
    """Tell which of the two ports `backend` has."""
    return hasattr(backend, "submit")
