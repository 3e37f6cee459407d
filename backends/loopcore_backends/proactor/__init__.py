"""proactor: a completion port on every platform, played over whatever multiplexer the platform has.

Where Windows has IOCP and Linux io_uring, this backend has `_port.CompletionPort`: an object of the same shape, which
makes the system calls itself when a readiness backend says that they will succeed. What that costs and why it is done
so is in docs/adr/0015.

It stands on the first of kqueue, epoll, poll and select that can run here. `ProactorBackend(over="poll")` takes
another, or any object with the readiness port.
"""

from collections.abc import Sequence

from loopcore.backend import Capability, ProbeResult, ReadinessBackend
from loopcore.completion import Completion
from loopcore.errors import BackendUnavailableError
from loopcore.operations import Operation
from loopcore_backends.proactor._calls import CAPABILITIES
from loopcore_backends.proactor._multiplexers import choose
from loopcore_backends.proactor._port import CompletionPort


class ProactorBackend:
    """Completions from a readiness backend."""

    name: str = "proactor"
    capabilities: frozenset[Capability] = CAPABILITIES
    backend_api = (1, 0)

    @classmethod
    def probe(cls) -> ProbeResult:
        """Say whether there is a multiplexer."""
        try:
            choose(None)
        except BackendUnavailableError as exc:
            return ProbeResult(False, str(exc))
        return ProbeResult(True)

    @classmethod
    def details(cls) -> dict[str, str]:
        """Return the name of the multiplexer that it would stand on now."""
        return {"over": choose(None)().name}

    def __init__(self, over: str | ReadinessBackend | None = None) -> None:
        """Stand on `over`: a name, a readiness backend, which this one then owns, or None for the platform's best.

        Raises UsageError for a name that is none, BackendUnavailableError if it cannot run here.
        """
        multiplexer = choose(over)() if over is None or isinstance(over, str) else over
        self.over: str = multiplexer.name
        self.capabilities = CAPABILITIES | multiplexer.capabilities
        self._port = CompletionPort(multiplexer, self.name)

    def submit(self, operation: Operation) -> None:
        self._port.start(operation)

    def cancel(self, operation: Operation) -> None:
        self._port.cancel(operation)

    def wait(self, timeout: float | None) -> Sequence[Completion]:
        return self._port.dequeue(timeout)

    def wake(self) -> None:
        self._port.wake()

    def close(self) -> Sequence[Operation]:
        return self._port.close()
