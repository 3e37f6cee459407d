"""Pointing test.test_asyncio at loopcore, inside the child process.

`install` makes loopcore's the loop that asyncio makes: behind the default policy, and in place of
`asyncio.SelectorEventLoop`. `adapt` puts subclasses of a module's mixins in the place of the classes that are made
of them: a mixin that CPython runs once for each selector, watcher or implementation of Task runs once, on loopcore.
The class that stays keeps its name, so that a result can be laid beside asyncio's.
"""

import asyncio
import selectors
import sys
from collections.abc import Callable
from typing import Any

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
    from loopcore.discovery import choose_backend
    from loopcore.loop import EventLoop

    factory = choose_backend(backend).factory

    class SelectorEventLoop(EventLoop):  # type: ignore[misc]
        """A class, because tests derive from asyncio's and ask for instances of it."""

        def __init__(self, selector: selectors.BaseSelector | None = None) -> None:
            global _loops_made
            _loops_made += 1
            if selector is not None:
                selector.close()
            super().__init__(factory())

        @property
        def _default_executor(self) -> Any:
            return self._executors._default  # test.test_asyncio.utils looks at it before it closes a loop

    replacement: Any = SelectorEventLoop
    asyncio.SelectorEventLoop = replacement  # type: ignore[misc]
    if sys.version_info >= (3, 13):
        asyncio.EventLoop = replacement
    policy: Any = asyncio.DefaultEventLoopPolicy
    policy._loop_factory = replacement


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
            delattr(module, name)


def _one_selector(module: Any, backend: str) -> None:
    kept = {"epoll": "EPollEventLoopTests", "poll": "PollEventLoopTests"}.get(backend, "SelectEventLoopTests")
    every = ("EPollEventLoopTests", "PollEventLoopTests", "SelectEventLoopTests", "KqueueEventLoopTests")
    _leave_out(module, *(name for name in every if name != kept))
    _replace(module, kept, create_event_loop=lambda self: asyncio.SelectorEventLoop())


def _one_watcher(module: Any, backend: str) -> None:
    # loopcore has no use for child watchers: these classes differ in nothing else.
    _leave_out(module, "SubprocessSafeWatcherTests", "SubprocessFastWatcherTests", "SubprocessPidfdWatcherTests")
    _leave_out(module, "SubprocessMultiLoopWatcherTests")


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
    from loopcore.kernel.future import Future

    _replace(module, "CFutureTests", cls=Future)
    _leave_out(module, "PyFutureTests")


def _tasks(module: Any, backend: str) -> None:
    from loopcore.kernel.future import Future
    from loopcore.kernel.task import Task

    class SubTask(Task):
        pass

    class SubFuture(Future):
        pass

    asyncio_task: Any = module.CTask_PyFuture_Tests.Task
    python_future: Any = module.CTask_PyFuture_Tests.Future
    _replace(module, "CTask_CFuture_Tests", Task=Task, Future=Future)
    _replace(module, "CTask_CFuture_SubclassTests", Task=SubTask, Future=SubFuture)
    # Mixed with asyncio's own, in C and in Python, in both directions.
    _replace(module, "CTask_PyFuture_Tests", Task=Task, Future=python_future)
    _replace(module, "PyTask_CFuture_Tests", Task=asyncio_task, Future=Future)
    _leave_out(
        module,
        *("CTaskSubclass_PyFuture_Tests", "PyTask_CFutureSubclass_Tests"),
        *("PyTask_PyFuture_Tests", "PyTask_PyFuture_SubclassTests"),
    )


def _eager_tasks(module: Any, backend: str) -> None:
    from loopcore.kernel.task import Task

    _replace(module, "CEagerTaskFactoryLoopTests", Task=Task)
    _replace(module, "NonEagerCTaskTests", Task=Task)
    _replace(module, "EagerCTaskTests", Task=Task)
    _leave_out(module, "PyEagerTaskFactoryLoopTests", "NonEagerPyTaskTests", "EagerPyTaskTests")


def _base_events(module: Any, backend: str) -> None:
    def set_up(self: Any) -> None:
        super(module.BaseEventLoopTests, self).setUp()
        self.loop.close()
        self.loop = asyncio.SelectorEventLoop()
        self.set_event_loop(self.loop)

    _replace(module, "BaseEventLoopTests", setUp=set_up)


ADAPTERS: dict[str, Callable[[Any, str], None]] = {
    "test_base_events": _base_events,
    "test_eager_task_factory": _eager_tasks,
    "test_events": _one_selector,
    "test_futures": _futures,
    "test_futures2": _futures2,
    "test_sendfile": _one_selector,
    "test_sock_lowlevel": _one_selector,
    "test_subprocess": _one_watcher,
    "test_tasks": _tasks,
}
