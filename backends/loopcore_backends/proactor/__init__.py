"""proactor: a completion port on every platform, emulated over whatever multiplexer the platform has.

Where Windows has IOCP and Linux io_uring, this backend has `_port.CompletionPort`: an object of the same shape, which
makes the system calls itself when a readiness backend reports that they will succeed. Costs and reasons are in
docs/adr/0009.

It uses the first of kqueue, epoll, poll and select that can run here. `ProactorBackend(over="poll")` takes
another, or any object with the readiness port.
"""

from collections.abc import Sequence

from loopcore.errors import BackendUnavailableError
from loopcore.ports.completion import Completion
from loopcore.ports.operations import Operation
from loopcore.ports.readiness import Capability, ProbeResult, ReadinessBackend
from loopcore.tracebacks import show_sources
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
        """Report whether there is a multiplexer."""
        try:
            choose(None)
        except BackendUnavailableError as exc:
            return ProbeResult(False, str(exc))
        return ProbeResult(True)

    @classmethod
    def details(cls) -> dict[str, str]:
        """Return the name of the multiplexer that a backend made now would use."""
        return {"over": choose(None)().name}

    def __init__(self, over: str | ReadinessBackend | None = None) -> None:
        """Use `over`: a name, a readiness backend, which this one then owns, or None for the platform's best.

        Raises UsageError for an unknown name, BackendUnavailableError if the multiplexer cannot run here.
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


show_sources(__name__, __path__)
