"""The entrances: new_event_loop, Runner, run and get_running_loop."""

import asyncio
import contextvars
import importlib.metadata
import sys
from collections.abc import Callable
from typing import Any

import pytest

import loopcore
from loopcore.errors import UsageError
from loopcore.runner import as_coroutine

Loop = asyncio.AbstractEventLoop
Factory = Callable[[], Loop]


async def running_loop() -> Any:
    return asyncio.get_running_loop()


def test_run_runs_on_a_new_loop_and_closes_it(loopcore_factory: Factory, backend_name: str) -> None:
    loop = loopcore.run(running_loop(), backend=backend_name)
    assert type(loop) is loopcore.EventLoop
    assert loop.backend.name == backend_name
    assert loop.is_closed()


def test_environment_chooses_the_backend(
    loopcore_factory: Factory, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPCORE_BACKEND", backend_name)
    assert loopcore.run(running_loop()).backend.name == backend_name


def test_run_turns_debug_mode_on_and_off() -> None:
    async def main() -> bool:
        return asyncio.get_running_loop().get_debug()

    assert loopcore.run(main(), debug=True) is True
    assert loopcore.run(main(), debug=False) is False


def test_get_running_loop_returns_loopcores_loop(loopcore_factory: Factory) -> None:
    async def main() -> bool:
        return loopcore.get_running_loop() is asyncio.get_running_loop()

    with loopcore.Runner(loop_factory=loopcore_factory) as runner:
        assert runner.run(main())


def test_get_running_loop_refuses_another_loop_and_none() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"^the running loop <.*SelectorEventLoop .*use loopcore\.run\(\)"):
            loopcore.get_running_loop()

    loopcore.run(main(), loop_factory=asyncio.SelectorEventLoop)
    with pytest.raises(RuntimeError, match=r"^no running event loop$"):
        loopcore.get_running_loop()


def test_run_takes_any_loop_factory() -> None:
    assert isinstance(loopcore.run(running_loop(), loop_factory=asyncio.SelectorEventLoop), asyncio.SelectorEventLoop)


def test_loop_factory_excludes_backend_and_plugins() -> None:
    with pytest.raises(TypeError, match="pass them or loop_factory"):
        loopcore.Runner(backend="poll", loop_factory=asyncio.SelectorEventLoop)
    with pytest.raises(TypeError, match="pass them or loop_factory"):
        loopcore.Runner(plugins=[], loop_factory=asyncio.SelectorEventLoop)


def test_run_takes_any_awaitable() -> None:
    class Awaitable:
        def __await__(self) -> Any:
            yield
            return "result"

    assert loopcore.run(Awaitable()) == "result"


def test_coroutine_function_is_an_error_that_says_to_call_it() -> None:
    with pytest.raises(TypeError, match=r"got the coroutine function 'running_loop': call it, as in running_loop\(\)$"):
        loopcore.run(running_loop)  # type: ignore[arg-type]


def test_what_cannot_be_awaited_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"^a coroutine or another awaitable was expected, got 1$"):
        loopcore.run(1)  # type: ignore[arg-type]


def test_run_inside_a_running_loop_is_an_error() -> None:
    async def main() -> None:
        coroutine = running_loop()
        with pytest.raises(RuntimeError, match=r"^loopcore\.run\(\) cannot be called from a running event loop$"):
            loopcore.run(coroutine)
        coroutine.close()

    loopcore.run(main())


def test_run_cancels_what_is_left_and_closes_generators() -> None:
    log: list[str] = []

    async def background() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            log.append("cancelled")

    async def generator() -> Any:
        try:
            yield 1
        finally:
            log.append("generator closed")

    async def main() -> None:
        tasks.append(asyncio.ensure_future(background()))
        tasks.append(generator())
        await anext(tasks[1])
        await asyncio.to_thread(log.append, "thread")

    tasks: list[Any] = []
    loopcore.run(main())
    assert log == ["thread", "cancelled", "generator closed"]


def test_runner_keeps_loop_and_context_between_runs() -> None:
    variable = contextvars.ContextVar[str]("variable", default="default")

    async def put() -> Any:
        variable.set("kept")
        return asyncio.get_running_loop()

    async def get() -> tuple[Any, str]:
        return asyncio.get_running_loop(), variable.get()

    with loopcore.Runner() as runner:
        loop = runner.run(put())
        assert runner.get_loop() is loop
        assert runner.run(get()) == (loop, "kept")
        assert runner.run(get(), context=contextvars.copy_context()) == (loop, "default")
    assert loop.is_closed()


def test_asyncio_runner_takes_loopcore_as_a_factory() -> None:
    with asyncio.Runner(loop_factory=loopcore.new_event_loop) as runner:
        assert type(runner.run(running_loop())) is loopcore.EventLoop


@pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio.run takes a loop_factory from 3.12 on")
def test_asyncio_run_takes_loopcore_as_a_factory() -> None:
    loop = asyncio.run(running_loop(), loop_factory=loopcore.new_event_loop)  # type: ignore[call-arg]
    assert type(loop) is loopcore.EventLoop


class Noting:
    def __init__(self) -> None:
        self.notes: list[str] = []

    @loopcore.hookimpl
    def loopcore_loop_created(self, loop: Any) -> None:
        self.notes.append("created")

    @loopcore.hookimpl
    def loopcore_run_started(self, loop: Any) -> None:
        self.notes.append("started")

    @loopcore.hookimpl
    def loopcore_exception(self, loop: Any, context: dict[str, Any]) -> None:
        self.notes.append(context["message"])

    @loopcore.hookimpl
    def loopcore_loop_closed(self, loop: Any) -> None:
        self.notes.append("closed")


@pytest.mark.reports_errors
def test_plugins_given_as_objects_hear_of_the_loop() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_exception_handler({"message": "oops"})

    plugin = Noting()
    loopcore.run(main(), plugins=[plugin])
    assert plugin.notes[:3] == ["created", "started", "oops"]
    assert plugin.notes[-1] == "closed"


def test_unknown_plugin_is_an_error() -> None:
    with pytest.raises(UsageError, match="there is no plugin 'nonsense'"):
        loopcore.new_event_loop(plugins=["nonsense"])


def test_plugins_of_the_environment_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPCORE_PLUGINS", "nonsense")
    with pytest.raises(UsageError, match="there is no plugin 'nonsense'"):
        loopcore.new_event_loop()
    loopcore.new_event_loop(plugins=[]).close()


def test_unknown_backend_is_an_error() -> None:
    with pytest.raises(UsageError, match="there is no backend 'nonsense'"):
        loopcore.new_event_loop("nonsense")


def test_coroutines_go_through_unchanged() -> None:
    coroutine = running_loop()
    assert as_coroutine(coroutine) is coroutine
    coroutine.close()


def test_version_is_that_of_the_distribution() -> None:
    assert loopcore.__version__ == importlib.metadata.version("loopcore")


def test_public_names_exist() -> None:
    assert [name for name in loopcore.__all__ if not hasattr(loopcore, name)] == []


def test_loop_class_makes_its_own_backend_as_the_entrance_does(
    loopcore_factory: Factory, backend_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mine(loopcore.EventLoop):
        pass

    for loop in (Mine(backend_name), Mine(backend=f"{backend_name},select")):
        assert loop.backend.name == backend_name
        loop.close()
    monkeypatch.setenv("LOOPCORE_BACKEND", backend_name)
    with asyncio.Runner(loop_factory=Mine) as runner:
        assert runner.run(running_loop()).backend.name == backend_name


@pytest.mark.parametrize("backend", [["epoll", "poll"], 5, object(), str])
def test_what_is_no_backend_is_an_error_that_says_what_is_one(backend: Any) -> None:
    with pytest.raises(UsageError, match="backend= takes a name, comma-separated names, or a backend instance"):
        loopcore.new_event_loop(backend)
