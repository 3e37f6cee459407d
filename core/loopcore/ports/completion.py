"""The completion port: a backend that does the work itself and reports when it is done.

A readiness backend (`loopcore.ports.readiness`) reports that a descriptor is ready, and core makes the system call. A
completion backend is handed the call, as an operation (`loopcore.ports.operations`), and returns its result. IOCP and
io_uring work this way; `proactor` emulates it over any readiness multiplexer. Core runs the same transports over both
kinds, and watches descriptors for `add_reader` through POLL. An entry point or `register_backend` may name either
kind; a backend that has `submit` is a completion backend.

Guarantees, each with a test in `loopcore.testing.conformance`:

- Every accepted operation has exactly one terminal completion, also after `cancel`; `close` returns the operations
  it had to end.
- The backend calls nothing back. Operating system errors are OSErrors in completions; `submit` does not raise them.
- An operation keeps its buffers alive, and their memory in place, until its terminal completion.
- Completions of one operation come in the order of its results. Sends on one descriptor are not reordered if
  one is in flight at a time; core's drivers ensure that.
- Timers stay in core; timeouts are rounded up.
- `wake` may be called from any thread and from a signal handler. So may `cancel` and `close`, in the middle of
  `wait`, because finalizers call them and the collector runs in whichever thread allocates.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard

from loopcore.ports.operations import Operation
from loopcore.ports.readiness import Capability, ProbeResult, ReadinessBackend

Completion: TypeAlias = tuple[Operation, Any, bool]
"""The operation, its result or OSError, and whether more will come: false in the terminal one."""


class CompletionBackend(Protocol):
    """A multiplexer that completes operations. Thread: the loop's own, except `wake`, `cancel` and `close`.

    The loop's thread is the one that called `wait` last; before the first wait, any thread counts as it.
    Any call after `close`, except `close` and `wake`, raises BackendClosedError.
    """

    if TYPE_CHECKING:  # read only; a class that inherits this one may set them all the same

        @property
        def name(self) -> str: ...

        @property
        def capabilities(self) -> frozenset[Capability]: ...

    else:
        name: str
        capabilities: frozenset[Capability]

    @classmethod
    def probe(cls) -> ProbeResult:
        """Say whether this backend can run here, cheaply and without side effects."""
        ...

    def submit(self, operation: Operation) -> None:
        """Accept `operation`; it starts now or, at the latest, in the next `wait`.

        Its descriptor must be non-blocking, except for POLL, files and processes. Raises ValueError for an
        operation that is in flight already, UsageError for one that this backend does not support.
        """
        ...

    def cancel(self, operation: Operation) -> None:
        """End `operation` early. Its terminal completion comes with a later `wait`, as always.

        That is OSError(ECANCELED), or its result if it had finished by then; core handles either. When this returns,
        the operation no longer keeps its file open: closing the descriptor closes the file. An operation that is not
        in flight, because its terminal completion has been returned, is left alone.

        Thread: any, also in the middle of `wait`. In a thread other than the loop's it is a request, carried out by the
        current `wait` or else the next; the same may hold if a finalizer or a signal handler calls it in the middle of
        another call. A blocked wait ends with it. Until then the operation may keep its file open. A result that
        the wait has just collected for it comes before its terminal completion.
        """
        ...

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        """Block until an operation completes, the timeout passes, or `wake` is called; return the completions.

        `timeout` is in seconds; None waits without limit, 0.0 only polls. As in `ReadinessBackend.wait` it is rounded
        up, and a signal whose Python handler returns does not end the wait. One whose handler raises does, and the
        completions up to then come with the next wait. The success of a `quiet` operation need not end the wait
        either, but once the wait returns it is reported, never kept for a later one.
        """
        ...

    def wake(self) -> None:
        """Make the current `wait`, or else the next, return at once. Coalesces. Thread: any; after `close` a no-op."""
        ...

    def close(self) -> Sequence[Operation]:
        """End everything, release the backend's own descriptors; return the operations that had not ended. Idempotent.

        They may be submitted to another backend. Their results that were not reported yet are dropped; an accepted
        connection among them is closed. In a forked child it gives up the parent's resources without touching them.

        Thread: any, also in the middle of `wait`: that wait ends, with no completions or with BackendClosedError. Such
        a close may return nothing; the next close then returns the operations that had not ended. No operation is both
        reported by the wait and returned by a close. Memory that the kernel may still write to stays allocated until
        the kernel is done with it.
        """
        ...


Backend: TypeAlias = ReadinessBackend | CompletionBackend
"""A backend, of either port."""


def is_completion_backend(backend: object) -> TypeGuard[CompletionBackend]:
    """Return whether `backend` has the completion port, not the readiness port."""
    return hasattr(backend, "submit")
