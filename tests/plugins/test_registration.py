"""Registering plugins: order, subsets of arguments, mistakes, failures, and leaving at run time."""

import asyncio
import logging
import socket
from typing import Any

import pytest

from loopcore import hookimpl
from loopcore.errors import UsageError
from loopcore.kernel.probes import Probes
from loopcore.kernel.scheduler import Scheduler
from loopcore.testing import ScriptedBackend, VirtualClock


@pytest.fixture
def reactor() -> Scheduler:
    clock = VirtualClock()
    return Scheduler(ScriptedBackend(clock), clock=clock)


@pytest.fixture
def log() -> list[Any]:
    return []


def plugin(log: list[Any], name: str, **options: bool) -> object:
    class Plugin:
        @hookimpl(**options)
        def loopcore_handle_begin(self) -> None:
            log.append(name)

        @hookimpl(**options)
        def loopcore_run_started(self) -> None:
            log.append(name)

    return Plugin()


def test_plugins_are_called_as_pluggy_would_call_them(reactor: Scheduler, log: list[Any]) -> None:
    reactor.probes.register(plugin(log, "first"))
    reactor.probes.register(plugin(log, "trylast", trylast=True))
    reactor.probes.register(plugin(log, "tryfirst", tryfirst=True))
    reactor.probes.register(plugin(log, "second"))
    reactor.call_soon(int)
    reactor.tick()
    hot = list(log)
    log.clear()
    reactor.probes.cold("loopcore_run_started", loop=reactor)
    assert hot == log == ["tryfirst", "second", "first", "trylast"]


def test_a_plugin_takes_the_arguments_it_names_in_any_order(reactor: Scheduler, log: list[Any]) -> None:
    class Plugin:
        @hookimpl
        def loopcore_phase_end(self, count: int, phase: str) -> None:
            log.append((phase, count))

        @hookimpl
        def loopcore_handle_scheduled(self, source: str, loop: Any) -> None:
            log.append((source, loop is reactor))

    reactor.probes.register(Plugin())
    reactor.call_soon(int)
    reactor.tick()
    assert ("soon", True) in log
    assert ("pending", 1) in log


def test_a_module_can_be_a_plugin(reactor: Scheduler, log: list[Any]) -> None:
    import types

    module = types.ModuleType("a_plugin")

    @hookimpl
    def loopcore_handle_begin(handle: Any) -> None:
        log.append(handle)

    module.loopcore_handle_begin = loopcore_handle_begin  # type: ignore[attr-defined]
    assert reactor.probes.register(module) == "a_plugin"
    handle = reactor.call_soon(int)
    reactor.tick()
    assert log == [handle]


def unknown_hook() -> object:
    class Plugin:
        @hookimpl
        def loopcore_no_such_hook(self) -> None: ...

    return Plugin()


def unknown_argument() -> object:
    class Plugin:
        @hookimpl
        def loopcore_handle_begin(self, nothing: Any) -> None: ...

    return Plugin()


def wrapper() -> object:
    class Plugin:
        @hookimpl(wrapper=True)
        def loopcore_handle_begin(self) -> Any:
            return (yield)

    return Plugin()


def coroutine() -> object:
    class Plugin:
        @hookimpl
        async def loopcore_handle_begin(self) -> None: ...

    return Plugin()


def generator() -> object:
    class Plugin:
        @hookimpl
        def loopcore_handle_begin(self) -> Any:
            yield

    return Plugin()


@pytest.mark.parametrize("mistaken", [unknown_hook, unknown_argument, wrapper, coroutine, generator])
def test_a_mistaken_plugin_is_refused_and_leaves_nothing_behind(
    reactor: Scheduler, mistaken: Any, log: list[Any]
) -> None:
    reactor.probes.register(plugin(log, "good"), "good")
    with pytest.raises(UsageError, match="plugin"):
        reactor.probes.register(mistaken(), "mistaken")
    assert [name for name, _ in reactor.probes.plugins()] == ["good"]
    reactor.call_soon(int)
    reactor.tick()
    assert log == ["good"]


def test_the_same_plugin_twice_is_refused_and_stays_once(reactor: Scheduler, log: list[Any]) -> None:
    one = plugin(log, "one")
    reactor.probes.register(one)
    with pytest.raises(UsageError, match="is registered already"):
        reactor.probes.register(one)
    reactor.call_soon(int)
    reactor.tick()
    assert log == ["one"]


def test_a_name_is_given_once(reactor: Scheduler, log: list[Any]) -> None:
    reactor.probes.register(plugin(log, "one"), "name")
    with pytest.raises(UsageError, match="a plugin 'name' already"):
        reactor.probes.register(plugin(log, "other"), "name")


def test_plugins_without_a_name_are_called_after_their_class(reactor: Scheduler, log: list[Any]) -> None:
    names = [reactor.probes.register(plugin(log, name)) for name in ("one", "other")]
    assert names == ["Plugin", "Plugin-2"]
    reactor.probes.reorder("Plugin")
    reactor.call_soon(int)
    reactor.tick()
    assert log == ["one", "other"]


def test_unregistering_a_stranger_is_an_error(reactor: Scheduler) -> None:
    with pytest.raises(UsageError, match="is not registered"):
        reactor.probes.unregister(object())


@pytest.mark.parametrize("hook", ["loopcore_handle_begin", "loopcore_phase_begin", "loopcore_loop_closed"])
def test_a_plugin_that_raises_is_logged_once_counted_and_out_and_the_loop_goes_on(
    reactor: Scheduler, log: list[Any], caplog: pytest.LogCaptureFixture, hook: str
) -> None:
    def fail(self: Any) -> None:
        log.append("failed")
        raise ValueError("plugin")

    broken = type("Broken", (), {hook: hookimpl(fail)})()
    reactor.probes.register(broken, "broken")
    reactor.probes.register(plugin(log, "other"))
    for number in range(3):
        reactor.call_soon(log.append, number)
    reactor.tick()
    reactor._close_scheduler()
    assert log.count("failed") == 1
    assert [entry for entry in log if isinstance(entry, int)] == [0, 1, 2]
    assert log.count("other") == 3
    assert reactor.probes.failures == {"broken": 1}
    (record,) = caplog.records
    assert record.name == "loopcore.plugin"
    assert record.levelno == logging.ERROR
    assert hook in record.getMessage()
    assert len(reactor.probes.plugins()) == 1


def test_a_plugin_that_exits_ends_the_run_and_loses_nothing(reactor: Scheduler, log: list[Any]) -> None:
    class Exit:
        @hookimpl
        def loopcore_handle_end(self) -> None:
            raise SystemExit

    leaving = Exit()
    reactor.probes.register(leaving)
    reactor.call_soon(log.append, 1)
    reactor.call_soon(log.append, 2)
    reactor.call_later(0, log.append, 3)
    with pytest.raises(SystemExit):
        reactor._run_ticks()
    reactor.probes.unregister(leaving)
    reactor.tick()
    assert log == [1, 2, 3]


class Exit:
    """Leaves the loop and raises an error, in the first hook before a callback or step."""

    def __init__(self, error: type[BaseException] = SystemExit) -> None:
        self.error = error

    @hookimpl
    def loopcore_handle_begin(self, loop: Any) -> None:
        loop.probes.unregister(self)
        raise self.error

    loopcore_task_step_begin = loopcore_handle_begin


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("schedule", ["call_soon", "call_soon_threadsafe", "next_tick", "call_immediate"])
def test_a_callback_runs_although_the_hook_before_it_exits(
    reactor: Scheduler, log: list[Any], schedule: str, error: type[BaseException]
) -> None:
    reactor.probes.register(Exit(error))
    for number in range(3):
        getattr(reactor, schedule)(log.append, number)
    with pytest.raises(error):
        reactor.tick()
    assert log == [0]
    reactor.tick()
    assert log == [0, 1, 2]


@pytest.mark.loopcore_only
def test_a_task_goes_on_if_the_hook_before_a_step_exits(loop: Any) -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    loop.probes.register(Exit())
    task = loop.create_task(work())
    with pytest.raises(SystemExit):
        loop.run_until_complete(task)
    assert loop.run_until_complete(asyncio.wait_for(task, 30)) == "done"


@pytest.mark.loopcore_only
@pytest.mark.parametrize("hook", ["loopcore_task_done", "loopcore_task_woken"])
def test_waiters_are_woken_although_a_hook_exits(loop: Any, hook: str) -> None:
    def leave(self: object, loop: Any) -> None:
        loop.probes.unregister(self)
        raise SystemExit

    async def wait() -> None:
        await task

    task = loop.create_task(asyncio.sleep(0))
    waiters = [loop.create_task(wait()) for _ in range(4)]
    loop.probes.register(type("Leaving", (), {hook: hookimpl(leave)})())
    with pytest.raises(SystemExit):
        loop.run_forever()
    loop.run_until_complete(asyncio.wait_for(asyncio.gather(*waiters), 30))


@pytest.mark.loopcore_only
def test_a_task_that_awaits_a_future_of_asyncio_goes_on_as_well(loop: Any) -> None:
    class ExitBeforeStep:
        @hookimpl
        def loopcore_task_step_begin(self, loop: Any) -> None:
            loop.probes.unregister(self)
            raise SystemExit

    async def work() -> str:
        future = asyncio.Future[str](loop=loop)
        loop.call_soon(future.set_result, "done")
        loop.probes.register(ExitBeforeStep())
        return await future

    task = loop.create_task(work())
    with pytest.raises(SystemExit):
        loop.run_until_complete(task)
    for _ in range(3):
        loop.stop()
        loop.run_forever()
    assert task.result() == "done"


@pytest.mark.loopcore_only
def test_a_reader_runs_once_although_the_hook_before_it_exits(loop: Any) -> None:
    received: list[bytes] = []
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        loop.add_reader(near, lambda: received.append(near.recv(9)))
        far.send(b"x")
        loop.probes.register(Exit())
        with pytest.raises(SystemExit):
            loop.run_forever()
        loop.call_later(0.01, loop.stop)
        loop.run_forever()
        loop.remove_reader(near)
    assert received == [b"x"]


def test_a_plugin_may_come_and_go_while_the_loop_runs(reactor: Scheduler, log: list[Any]) -> None:
    visitor = plugin(log, "seen")
    reactor.call_soon(log.append, "before")
    reactor.call_soon(reactor.probes.register, visitor)
    reactor.call_soon(log.append, "between")
    reactor.call_soon(reactor.probes.unregister, visitor)
    reactor.call_soon(log.append, "after")
    reactor.tick()
    assert log == ["before", "seen", "between", "seen", "after"]


def test_a_plugin_may_unregister_itself_inside_a_hook(reactor: Scheduler, log: list[Any]) -> None:
    class Once:
        @hookimpl
        def loopcore_phase_begin(self, loop: Any) -> None:
            log.append("once")
            loop.probes.unregister(self)

    reactor.probes.register(Once())
    reactor.call_soon(log.append, "callback")
    reactor.tick()
    assert log == ["once", "callback"]


def test_without_plugins_no_hook_code_runs_in_a_tick(reactor: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise AssertionError("a probe was fired")

    monkeypatch.setattr(Probes, "fire", fail)
    monkeypatch.setattr(Probes, "_call", fail)
    ran: list[str] = []
    reactor.call_soon_threadsafe(ran.append, "threadsafe")
    for schedule in (reactor.call_soon, reactor.call_immediate, reactor.next_tick, reactor.queue_microtask):
        schedule(ran.append, schedule.__name__)
    reactor.call_later(0, ran.append, "timer")
    reactor.call_soon(reactor._stop_ticks)
    reactor._run_ticks()
    assert len(ran) == 6
    assert not reactor.probes.watching_handles


def test_a_plugin_of_cold_hooks_only_leaves_the_tick_unwatched(reactor: Scheduler) -> None:
    class Cold:
        @hookimpl
        def loopcore_run_started(self) -> None: ...

    reactor.probes.register(Cold())
    assert not reactor.probes.watching_handles
    assert not reactor.probes.watching_ticks


def test_plugins_are_called_in_the_order_they_are_given_at_run_time(reactor: Scheduler, log: list[Any]) -> None:
    for name in ("a", "b", "c", "d"):
        reactor.probes.register(plugin(log, name), name)
    reactor.call_soon(reactor.probes.reorder, "b", "d")
    reactor.call_soon(int)
    reactor.tick()
    assert log == ["d", "c", "b", "a", "b", "d", "c", "a"]


def test_reordering_does_not_pass_over_tryfirst(reactor: Scheduler, log: list[Any]) -> None:
    reactor.probes.register(plugin(log, "tryfirst", tryfirst=True), "tryfirst")
    reactor.probes.register(plugin(log, "other"), "other")
    reactor.probes.reorder("other", "tryfirst")
    reactor.call_soon(int)
    reactor.tick()
    assert log == ["tryfirst", "other"]


@pytest.mark.parametrize("names", [("absent",), ("a", "a")])
def test_reordering_what_is_not_there_or_named_twice_is_an_error(reactor: Scheduler, names: tuple[str, ...]) -> None:
    reactor.probes.register(plugin([], "a"), "a")
    with pytest.raises(UsageError, match="cannot reorder"):
        reactor.probes.reorder(*names)


@pytest.mark.loopcore_only
@pytest.mark.parametrize("plugin", [None, dict, 5])
def test_what_has_no_hooks_is_no_plugin(loop: Any, plugin: object) -> None:
    with pytest.raises(UsageError, match="plugin"):
        loop.probes.register(plugin)


@pytest.mark.loopcore_only
def test_a_cold_hook_cannot_be_wrapped_either(loop: Any) -> None:
    class Wrapping:
        @hookimpl(wrapper=True)
        def loopcore_exception(self) -> Any:
            return (yield)

    with pytest.raises(UsageError, match="wrapper"):
        loop.probes.register(Wrapping())
