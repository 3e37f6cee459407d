"""Pointing test.test_asyncio at loopcore, inside the child process.

`install` makes loopcore's the loop that asyncio makes: behind the default policy, and in place of
`asyncio.SelectorEventLoop`. Where a test replaces a name in asyncio's modules ("asyncio.base_events.socket"), it is
replaced where loopcore uses the same thing, too. `adapt` puts subclasses of a module's mixins in the place of the
classes that are made of them: a mixin that CPython runs once for each selector, watcher or implementation of Task
runs once, on loopcore. The class that stays keeps its name, so that a result can be laid beside asyncio's.
"""

import asyncio
import importlib
import selectors
import sys
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

_loops_made = 0
_adapted: set[type] = set()


def loops_made() -> int:
    """Return how many loops of loopcore's this process has made."""
    return _loops_made


def is_adapted(test_class: type) -> bool:
    """Say whether the class was pointed at loopcore's Task or Future, which need no loop of loopcore's."""
    return test_class in _adapted


def install(backend: str) -> None:
    """Make every loop that asyncio makes from now on one of loopcore's on `backend`."""
    from loopcore.loop import EventLoop
    from loopcore.selection.discovery import choose_backend

    factory = choose_backend(backend).factory

    class SelectorEventLoop(EventLoop):  # type: ignore[misc]
        """A class, because tests derive from asyncio's and ask for instances of it."""

        def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
            global _loops_made
            _loops_made += 1
            if selector is not None:
                selector.close()
            super().__init__(factory())

        # Private names of asyncio's that the tests' own scaffolding uses, to do what has a public name.

        @property
        def _default_executor(self) -> Any:
            return self._executors._default  # test.test_asyncio.utils looks at it before it closes a loop

        def _run_once(self) -> None:
            self.call_soon(self.stop)
            self._run_ticks()

        def _stop_serving(self, sock: Any) -> None:
            self.remove_reader(sock)
            sock.close()

    replacement: Any = SelectorEventLoop
    asyncio.SelectorEventLoop = replacement  # type: ignore[misc]
    if sys.platform == "win32":
        asyncio.ProactorEventLoop = replacement
    if sys.version_info >= (3, 13):
        asyncio.EventLoop = replacement
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.14 still asks the policy
        policy: Any = asyncio.DefaultEventLoopPolicy
    policy._loop_factory = replacement
    _redirect_mocks()


REDIRECTIONS = {
    "asyncio.base_events.logger": (
        ("loopcore.kernel.faults", "logger"),
        ("loopcore.kernel.observed", "logger"),
        ("loopcore.services.resolver", "logger"),
    ),
    "asyncio.base_events.socket": (
        ("loopcore.endpoints.addresses", "socket"),
        ("loopcore.endpoints.connect", "socket"),
        ("loopcore.endpoints.datagram", "socket"),
        ("loopcore.endpoints.listen", "socket"),
        ("loopcore.services.resolver", "socket"),
    ),
    "asyncio.coroutines._is_debug_mode": (("loopcore.loop", "debug_is_asked_for"),),
    "asyncio.unix_events.logger": (("loopcore.services.signals", "logger"),),
    "asyncio.unix_events.signal": (("loopcore.services.signals", "signal"),),
    "asyncio.unix_events.socket": (("loopcore.endpoints.unix", "socket"),),
    "asyncio.unix_events.sys": (("loopcore.services.signals", "sys"),),
}
"""What tests replace in asyncio's modules, and where loopcore has it."""


class _Places:
    """Several names in several modules, as the one attribute of one object that `mock.patch` replaces."""

    def __init__(self, target: str) -> None:
        module, _, name = target.rpartition(".")
        places = [(importlib.import_module(module), name)]
        places += [(importlib.import_module(other), theirs) for other, theirs in REDIRECTIONS[target]]
        originals = [(place, attribute, getattr(place, attribute)) for place, attribute in places]
        vars(self).update({"_originals": originals, name: originals[0][2]})

    def __setattr__(self, name: str, value: Any) -> None:
        for place, attribute, original in vars(self)["_originals"]:
            setattr(place, attribute, original if value is vars(self)[name] else value)


def _redirect_mocks() -> None:
    patch: Any = mock.patch

    def redirecting(target: Any, *args: Any, **kwargs: Any) -> Any:
        patcher = patch(target, *args, **kwargs)
        if target in REDIRECTIONS:
            patcher.getter = lambda: _Places(target)
        return patcher

    vars(redirecting).update(vars(patch))  # patch.object, patch.dict ...
    mock.patch = redirecting  # type: ignore[assignment]


def adapt(module: Any, backend: str) -> None:
    """Put loopcore into the classes of one module, and leave out those that would test the same again."""
    adapter = ADAPTERS.get(module.__name__.rpartition(".")[2])
    if adapter is not None:
        adapter(module, backend)


def _replace(module: Any, name: str, **attributes: Any) -> None:
    """Put a subclass with other attributes in the place of a class."""
    original = getattr(module, name)
    attributes["__module__"] = module.__name__
    replacement = type(original)(name, (original,), attributes)
    _adapted.add(replacement)
    setattr(module, name, replacement)


def _leave_out(module: Any, *names: str) -> None:
    for name in names:
        if hasattr(module, name):
            setattr(module, name, type(name, (), {}))  # tests may ask whether they are of this class


def _one_selector(module: Any, backend: str) -> None:
    every = {
        "epoll": "EPollEventLoopTests",
        "poll": "PollEventLoopTests",
        "iocp": "ProactorEventLoopTests",
        "kqueue": "KqueueEventLoopTests",
        "select": "SelectEventLoopTests",
    }
    kept = every[backend] if backend in every and hasattr(module, every[backend]) else every["select"]
    _leave_out(module, *(name for name in every.values() if name != kept))
    _replace(module, kept, create_event_loop=lambda self: asyncio.SelectorEventLoop())


def _one_watcher(module: Any, backend: str) -> None:
    # loopcore has no use for child watchers: these classes differ in nothing else.
    _leave_out(module, "SubprocessSafeWatcherTests", "SubprocessFastWatcherTests", "SubprocessPidfdWatcherTests")
    _leave_out(module, "SubprocessMultiLoopWatcherTests")
    # Else the policy would make a loop for a test that counts on one before it to have set one.
    asyncio.set_event_loop(None)


def _futures(module: Any, backend: str) -> None:
    from loopcore.kernel.future import Future

    class SubFuture(Future):
        pass

    def new_future(self: Any) -> Future:
        return Future(loop=self.loop)

    def new_sub_future(self: Any) -> Future:
        return SubFuture(loop=self.loop)

    # The names of asyncio's C classes, because these are the ones that loopcore's replace.
    _replace(module, "CFutureTests", cls=Future)
    _replace(module, "CSubFutureTests", cls=SubFuture)
    _replace(module, "CFutureDoneCallbackTests", _new_future=new_future)
    _replace(module, "CSubFutureDoneCallbackTests", _new_future=new_sub_future)
    _replace(module, "CFutureInheritanceTests", _get_future_cls=lambda self: Future)
    _leave_out(module, "PyFutureTests", "PyFutureDoneCallbackTests", "PyFutureInheritanceTests")


def _futures2(module: Any, backend: str) -> None:
    from loopcore import Task

    # What futures and tasks have in common; CPython tests it with tasks.
    _replace(module, "CFutureTests", cls=Task)
    _leave_out(module, "PyFutureTests")


def _tasks(module: Any, backend: str) -> None:
    from loopcore import Task
    from loopcore.kernel.future import Future

    asyncio_task: Any = module.CTask_PyFuture_Tests.Task
    python_future: Any = module.CTask_PyFuture_Tests.Future
    # The functions that asyncio's C tasks are looked up with; from Python 3.14 on those in Python know other tasks.
    lookup = {
        name: value for name, value in vars(module.CTask_PyFuture_Tests).items() if name.endswith(("_task", "_tasks"))
    }
    _replace(module, "CTask_CFuture_Tests", Task=Task, Future=Future)
    module.CTask_CFuture_SubclassTests = module.add_subclass_tests(
        type("CTask_CFuture_SubclassTests", (module.BaseTaskTests, module.test_utils.TestCase),
             {"Task": Task, "Future": Future, "__module__": module.__name__, **lookup})
    )  # fmt: skip
    _adapted.add(module.CTask_CFuture_SubclassTests)
    # Mixed with asyncio's own, in C and in Python, in both directions.
    _replace(module, "CTask_PyFuture_Tests", Task=Task, Future=python_future)
    _replace(module, "PyTask_CFuture_Tests", Task=asyncio_task, Future=Future, **lookup)
    _leave_out(
        module,
        *("CTaskSubclass_PyFuture_Tests", "PyTask_CFutureSubclass_Tests"),
        *("PyTask_PyFuture_Tests", "PyTask_PyFuture_SubclassTests"),
    )


def _eager_tasks(module: Any, backend: str) -> None:
    from loopcore import Task

    _replace(module, "CEagerTaskFactoryLoopTests", Task=Task)
    _replace(module, "NonEagerCTaskTests", Task=Task)
    _replace(module, "EagerCTaskTests", Task=Task)
    _leave_out(module, "PyEagerTaskFactoryLoopTests", "NonEagerPyTaskTests", "EagerPyTaskTests")


def _graph(module: Any, backend: str) -> None:
    _leave_out(module, "TestCallStackPy")  # with asyncio's functions in Python, which know asyncio's tasks in Python


def _free_threading(module: Any, backend: str) -> None:
    _leave_out(module, "TestPyFreeThreading", "TestEagerPyFreeThreading")  # as above


def _base_events(module: Any, backend: str) -> None:
    def set_up(self: Any) -> None:
        super(module.BaseEventLoopTests, self).setUp()
        self.loop.close()
        self.loop = asyncio.SelectorEventLoop()
        self.set_event_loop(self.loop)

    _replace(module, "BaseEventLoopTests", setUp=set_up)


def _runners(module: Any, backend: str) -> None:
    def new_loop(self: Any) -> Any:
        loop: Any = asyncio.SelectorEventLoop()
        loop.shutdown_ag_run = False

        async def shutdown_asyncgens() -> None:
            loop.shutdown_ag_run = True

        loop.shutdown_asyncgens = shutdown_asyncgens
        return loop

    module.BaseTest.new_loop = new_loop  # CPython's makes a base class of asyncio's loops, with mocks in it


def _pep492(module: Any, backend: str) -> None:
    def set_up(self: Any) -> None:
        super(module.BaseTest, self).setUp()
        self.loop = asyncio.SelectorEventLoop()
        self.set_event_loop(self.loop)

    module.BaseTest.setUp = set_up  # as above


def _streams(module: Any, backend: str) -> None:
    from loopcore import streams

    def set_up(self: Any) -> None:
        super(module.OwnStreamTests, self).setUp()
        for name in set(streams.__all__) & set(vars(asyncio)):  # on Windows asyncio has no Unix sockets
            patcher = mock.patch.object(asyncio, name, getattr(streams, name))
            patcher.start()
            self.addCleanup(patcher.stop)

    # Besides asyncio's streams on loopcore's loop, loopcore's own streams.
    attributes = {"setUp": set_up, "__module__": module.__name__}
    module.OwnStreamTests = type("OwnStreamTests", (module.StreamTests,), attributes)
    _adapted.add(module.OwnStreamTests)


ADAPTERS: dict[str, Callable[[Any, str], None]] = {
    "test_base_events": _base_events,
    "test_eager_task_factory": _eager_tasks,
    "test_events": _one_selector,
    "test_free_threading": _free_threading,
    "test_futures": _futures,
    "test_futures2": _futures2,
    "test_graph": _graph,
    "test_pep492": _pep492,
    "test_runners": _runners,
    "test_sendfile": _one_selector,
    "test_sock_lowlevel": _one_selector,
    "test_streams": _streams,
    "test_subprocess": _one_watcher,
    "test_tasks": _tasks,
}
