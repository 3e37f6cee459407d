"""loopcore: an asyncio event loop that can be taken apart.

    loopcore.run(main())                                       instead of asyncio.run
    loopcore.run(main(), backend="poll", plugins=["trace"])    with a chosen backend and plugins
    asyncio.Runner(loop_factory=loopcore.new_event_loop)       wherever a loop factory is accepted

The names exported here are public; everything else may change between versions. Each folder says what lives there and
what it may import; `text`, `tracebacks` and `_cython` serve them all. (PYTEST_DONT_REWRITE)
"""

from importlib import import_module

from loopcore.version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    # `isinstance` takes loopcore's futures, tasks and handles for asyncio's, and so do type checkers (docs/adr/0007).
    from asyncio import Future, Handle, Task, TimerHandle

    from loopcore import files, sync
    from loopcore.errors import BackendClosedError, BackendError, BackendUnavailableError, LoopcoreError, UsageError
    from loopcore.group import LoopGroup, Member
    from loopcore.hooks.specs import hookimpl
    from loopcore.hooks.types import ReadyOrder, TickBudget
    from loopcore.kernel.histogram import Histogram, HistogramSnapshot
    from loopcore.kernel.loop_stats import LoopStatsSnapshot
    from loopcore.kernel.meter import Measurements, Meter
    from loopcore.loop import EventLoop
    from loopcore.policy import EventLoopPolicy, install
    from loopcore.ports.completion import CompletionBackend
    from loopcore.ports.readiness import BACKEND_API, Capability, ProbeResult, ReadinessBackend
    from loopcore.runner import Runner, get_running_loop, new_event_loop, run
    from loopcore.selection.discovery import (
        Extension,
        list_backends,
        list_plugins,
        register_backend,
        unregister_backend,
    )
    from loopcore.streams import (
        StreamReader,
        StreamReaderProtocol,
        StreamWriter,
        open_connection,
        open_unix_connection,
        start_server,
        start_unix_server,
    )

__all__ = [
    "BACKEND_API",
    "BackendClosedError",
    "BackendError",
    "BackendUnavailableError",
    "Capability",
    "CompletionBackend",
    "EventLoop",
    "EventLoopPolicy",
    "Extension",
    "Future",
    "Handle",
    "Histogram",
    "HistogramSnapshot",
    "LoopGroup",
    "LoopStatsSnapshot",
    "LoopcoreError",
    "Measurements",
    "Member",
    "Meter",
    "ProbeResult",
    "ReadinessBackend",
    "ReadyOrder",
    "Runner",
    "StreamReader",
    "StreamReaderProtocol",
    "StreamWriter",
    "Task",
    "TickBudget",
    "TimerHandle",
    "UsageError",
    "files",
    "get_running_loop",
    "hookimpl",
    "install",
    "list_backends",
    "list_plugins",
    "new_event_loop",
    "open_connection",
    "open_unix_connection",
    "register_backend",
    "run",
    "start_server",
    "start_unix_server",
    "sync",
    "unregister_backend",
]

_HOMES = {
    "errors": ("BackendClosedError", "BackendError", "BackendUnavailableError", "LoopcoreError", "UsageError"),
    "files": ("files",),
    "group": ("LoopGroup", "Member"),
    "hooks.specs": ("hookimpl",),
    "hooks.types": ("ReadyOrder", "TickBudget"),
    "kernel.future": ("Future",),
    "kernel.handle": ("Handle", "TimerHandle"),
    "kernel.histogram": ("Histogram", "HistogramSnapshot"),
    "kernel.loop_stats": ("LoopStatsSnapshot",),
    "kernel.meter": ("Measurements", "Meter"),
    "kernel.own_tasks": ("Task",),
    "loop": ("EventLoop",),
    "policy": ("EventLoopPolicy", "install"),
    "ports.completion": ("CompletionBackend",),
    "ports.readiness": ("BACKEND_API", "Capability", "ProbeResult", "ReadinessBackend"),
    "runner": ("Runner", "get_running_loop", "new_event_loop", "run"),
    "selection.discovery": ("Extension", "list_backends", "list_plugins", "register_backend", "unregister_backend"),
    "streams": (
        "StreamReader", "StreamReaderProtocol", "StreamWriter",
        "open_connection", "open_unix_connection", "start_server", "start_unix_server",
    ),
    "sync": ("sync",),
}  # fmt: skip
_HOME_OF = {name: f"loopcore.{module}" for module, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:

    def __getattr__(name):
        # A name is imported on first use. Programs need few of them; and while a package's own `__init__` runs, each
        # import of one of its modules by another takes a lock, which made the import of all of them a tenth slower.
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(home)
        value = module if home == f"loopcore.{name}" else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})  # also the names that have not been used
