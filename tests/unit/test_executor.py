"""Blocking functions in threads, and their results back in the loop."""

import asyncio
import concurrent.futures
import contextvars
import gc
import socket
import sys
import threading
import weakref
from typing import Any

import pytest

import loopcore

Loop = asyncio.AbstractEventLoop


@pytest.mark.covers("EventLoop.run_in_executor(args)")
async def test_result_and_arguments_come_back(loop: Loop) -> None:
    assert await loop.run_in_executor(None, sorted, (3, 1, 2)) == [1, 2, 3]


def test_function_runs_in_another_thread_named_after_the_loop(loop: Loop, backend_name: str) -> None:
    name = loop.run_until_complete(loop.run_in_executor(None, lambda: threading.current_thread().name))
    assert name == ("asyncio_0" if backend_name == "asyncio" else "loopcore_0")


def test_exception_comes_back(loop: Loop) -> None:
    with pytest.raises(ZeroDivisionError):
        loop.run_until_complete(loop.run_in_executor(None, lambda: 1 // 0))


def test_no_thread_before_the_first_job(loop: Loop) -> None:
    before = threading.active_count()
    loop.run_until_complete(asyncio.sleep(0))
    assert threading.active_count() == before


def test_given_executor_is_used(loop: Loop) -> None:
    with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="mine") as pool:
        name = loop.run_until_complete(loop.run_in_executor(pool, lambda: threading.current_thread().name))
    assert name == "mine_0"


@pytest.mark.covers("EventLoop.set_default_executor")
def test_default_executor_can_be_replaced(loop: Loop) -> None:
    pool = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="mine")
    loop.set_default_executor(pool)
    name = loop.run_until_complete(loop.run_in_executor(None, lambda: threading.current_thread().name))
    assert name == "mine_0"


def test_default_executor_must_be_a_thread_pool(loop: Loop) -> None:
    with pytest.raises(TypeError, match=r"^executor must be ThreadPoolExecutor instance$"):
        loop.set_default_executor(object())  # type: ignore[arg-type]


async def test_cancelling_the_future_cancels_a_job_that_waits(loop: Loop) -> None:
    release = threading.Event()
    ran: list[int] = []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = loop.run_in_executor(pool, release.wait)
        second = loop.run_in_executor(pool, ran.append, 1)
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)  # the job hears of it through a callback
        with pytest.raises(asyncio.CancelledError):
            await second
        release.set()
        await first
    assert ran == []


async def test_context_is_not_carried_over_unlike_to_thread(loop: Loop) -> None:
    variable = contextvars.ContextVar[str]("variable", default="default")
    variable.set("mine")
    inherited = getattr(sys.flags, "thread_inherit_context", 0)  # by the executor's thread, when it starts
    assert (await loop.run_in_executor(None, variable.get), await asyncio.to_thread(variable.get)) == (
        "mine" if inherited else "default",
        "mine",
    )


def test_closed_loop_refuses_jobs(loop: Loop) -> None:
    loop.close()
    with pytest.raises(RuntimeError, match=r"^Event loop is closed$"):
        loop.run_in_executor(None, print)


def test_debug_mode_refuses_coroutines_and_what_cannot_be_called(loop: Loop) -> None:
    async def coroutine_function() -> None: ...

    loop.set_debug(True)
    with pytest.raises(TypeError, match=r"^coroutines cannot be used with run_in_executor\(\)$"):
        loop.run_in_executor(None, coroutine_function)
    with pytest.raises(TypeError, match=r"^a callable object was expected by run_in_executor\(\), got 1$"):
        loop.run_in_executor(None, 1)  # type: ignore[arg-type]


def test_after_shutdown_the_default_executor_refuses_jobs(loop: Loop) -> None:
    loop.run_until_complete(loop.run_in_executor(None, int))
    loop.run_until_complete(loop.shutdown_default_executor())
    with pytest.raises(RuntimeError, match=r"^Executor shutdown has been called$"):
        loop.run_in_executor(None, int)


def test_shutdown_without_any_job_needs_no_thread(loop: Loop) -> None:
    started: list[Any] = []
    threading.settrace(lambda *args: started.append(args))  # called in every new thread
    try:
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        threading.settrace(None)
    assert started == []


@pytest.mark.covers("EventLoop.shutdown_default_executor")
async def test_shutdown_waits_for_running_jobs(loop: Loop) -> None:
    release, started, finished = threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        started.set()
        release.wait()
        finished.set()

    job_done = loop.run_in_executor(None, job)
    await asyncio.to_thread(started.wait)
    shutdown = asyncio.ensure_future(loop.shutdown_default_executor())
    await asyncio.sleep(0)
    assert not shutdown.done()
    release.set()
    await shutdown
    assert finished.is_set()
    await job_done


@pytest.mark.covers("EventLoop.shutdown_default_executor(timeout)")
async def test_shutdown_gives_up_after_its_timeout_with_a_warning(loop: Loop, backend_name: str) -> None:
    if backend_name == "asyncio" and sys.version_info < (3, 13):
        pytest.skip("asyncio takes a timeout from 3.12 on, and at first did not keep to it")
    release = threading.Event()
    job_done = loop.run_in_executor(None, release.wait)
    try:
        with pytest.warns(RuntimeWarning, match=r"^The executor did not finishing joining its threads within 0.01 sec"):
            await loop.shutdown_default_executor(0.01)  # type: ignore[call-arg]
    finally:
        release.set()
    await job_done


def test_result_that_comes_after_the_loop_was_closed_is_dropped(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        loop.run_in_executor(pool, release.wait)
        loop.close()
        release.set()
    assert not caplog.records


async def test_a_job_that_its_pool_gives_up_is_cancelled(loop: Loop) -> None:
    started, release = threading.Event(), threading.Event()
    pool = concurrent.futures.ThreadPoolExecutor(1)
    first = loop.run_in_executor(pool, lambda: started.set() or release.wait())
    second = loop.run_in_executor(pool, print)
    assert started.wait(30)
    pool.shutdown(wait=False, cancel_futures=True)
    with pytest.raises(asyncio.CancelledError):
        await second
    release.set()
    await first
    pool.shutdown()


@pytest.mark.parametrize(
    ("raised", "wanted"),
    [
        (concurrent.futures.CancelledError("why"), asyncio.CancelledError),
        (concurrent.futures.InvalidStateError("why"), asyncio.InvalidStateError),
        (concurrent.futures.BrokenExecutor("why"), concurrent.futures.BrokenExecutor),
    ],
)
async def test_errors_of_pools_become_asyncios(loop: Loop, raised: Exception, wanted: type[BaseException]) -> None:
    def fail() -> None:
        raise raised

    with pytest.raises(wanted) as caught:
        await loop.run_in_executor(None, fail)
    assert type(caught.value) is wanted
    assert caught.value.args == ("why",)


async def test_a_strange_pools_future_needs_no_hash(loop: Loop) -> None:
    class Unhashable(concurrent.futures.Future[int]):
        __hash__ = None  # type: ignore[assignment]

    source = Unhashable()

    class Pool(concurrent.futures.Executor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            return source

    release = threading.Event()
    other = loop.run_in_executor(None, release.wait)
    job = loop.run_in_executor(Pool(), int)
    source.set_result(5)
    for _ in range(3):
        await asyncio.sleep(0)
    release.set()
    await other
    assert job.done()


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="references are not counted")
@pytest.mark.parametrize("fails", [False, True])
async def test_what_a_job_came_to_goes_without_the_collector(loop: Loop, fails: bool) -> None:
    release = threading.Event()
    pool = concurrent.futures.ThreadPoolExecutor(1)

    class Outcome(Exception):
        pass

    def work() -> Outcome:
        release.wait()
        if fails:
            raise Outcome
        return Outcome()

    async def ask() -> "weakref.ref[Outcome]":
        job = loop.run_in_executor(pool, work)
        release.set()
        try:
            return weakref.ref(await job)
        except Outcome as error:
            return weakref.ref(error)
        finally:
            del job

    gc.collect()
    gc.disable()
    try:
        watch = await ask()
        pool.shutdown()  # the thread lets go of what it ran
        await asyncio.sleep(0)
        assert watch() is None
    finally:
        gc.enable()


def test_the_future_of_a_job_is_the_one_that_the_loop_creates(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    create_future = loop.create_future

    def note() -> Any:
        made.append(create_future())
        return made[-1]

    monkeypatch.setattr(loop, "create_future", note)
    job = loop.run_in_executor(None, sorted, ())
    assert any(future is job for future in made)
    assert loop.run_until_complete(job) == []


@pytest.mark.loopcore_only
async def test_names_are_looked_up_although_the_default_executor_is_full(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *question, **flags: [threading.current_thread().name])
    release = threading.Event()
    pool = concurrent.futures.ThreadPoolExecutor(1)
    loop.set_default_executor(pool)
    blocked = loop.run_in_executor(None, release.wait)
    assert await loop.run_in_executor(None, socket.getaddrinfo, "name", 80) == ["loopcore_resolver_0"]
    release.set()
    await blocked


@pytest.mark.loopcore_only
def test_the_environment_bounds_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPCORE_THREADS", " 1 ")  # as the other settings take it
    loop = loopcore.new_event_loop()

    release = threading.Event()
    jobs = [loop.run_in_executor(None, release.wait) for _ in range(5)]
    names = {thread.name for thread in threading.enumerate() if thread.name.startswith("loopcore_")}
    release.set()
    loop.run_until_complete(asyncio.wait(jobs))
    loop.close()
    assert names == {"loopcore_0"}


@pytest.mark.loopcore_only
@pytest.mark.parametrize("threads", [1, 5])
def test_as_many_names_are_looked_up_at_a_time_as_functions_run(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    all_there = threading.Barrier(threads)

    def look_up(*question: Any, **flags: Any) -> list[str]:
        all_there.wait(10)
        return [threading.current_thread().name]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setenv("LOOPCORE_THREADS", str(threads))
    loop = loopcore.new_event_loop()

    async def main() -> None:
        names = await asyncio.gather(
            *(loop.run_in_executor(None, socket.getaddrinfo, "name", 80) for _ in range(3 * threads))
        )
        assert {name for (name,) in names} == {f"loopcore_resolver_{number}" for number in range(threads)}

    loop.run_until_complete(main())
    loop.close()


@pytest.mark.parametrize("wrong", ["0", "1025", "-1", "many", "2.5", "²", "9" * 5000])
def test_a_wrong_number_of_threads_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("LOOPCORE_THREADS", wrong)
    with pytest.raises(loopcore.UsageError, match="must be a whole number from 1 to 1024"):
        loopcore.new_event_loop()


@pytest.mark.loopcore_only
async def test_a_shutdown_that_gives_up_says_what_has_not_finished(loop: Any) -> None:
    release = threading.Event()

    def download() -> None:
        release.wait()

    job = loop.run_in_executor(None, download)
    assert loop.unfinished_jobs() == [download]
    with pytest.warns(RuntimeWarning, match=r"within 0 seconds\. Not finished: .*download$"):
        await loop.shutdown_default_executor(0)
    release.set()
    await job
    assert loop.unfinished_jobs() == []


@pytest.mark.loopcore_only
async def test_a_shutdown_that_gives_up_ends_the_threads_that_look_names_up(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *question: threading.current_thread())
    release = threading.Event()
    job = loop.run_in_executor(None, release.wait)
    resolving: Any = await loop.run_in_executor(None, socket.getaddrinfo, "name", 80)
    with pytest.warns(RuntimeWarning, match="did not finish"):
        await loop.shutdown_default_executor(0)  # type: ignore[call-arg]
    resolving.join(30)
    has_ended = not resolving.is_alive()
    release.set()
    await job
    assert has_ended


@pytest.mark.covers("EventLoop.shutdown_default_executor")
async def test_an_error_of_the_default_executor_ends_its_shutdown(loop: Loop) -> None:
    class Broken(concurrent.futures.ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, **options: Any) -> None:
            super().shutdown(wait, **options)
            if wait:
                raise OSError("it is broken")

    loop.set_default_executor(Broken(1))
    await loop.run_in_executor(None, int)
    with pytest.raises(OSError, match="it is broken"):
        await asyncio.wait_for(loop.shutdown_default_executor(), 30)


@pytest.mark.loopcore_only
def test_a_closed_loop_still_says_which_jobs_have_not_finished(loop: Any) -> None:
    release = threading.Event()
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_in_executor(None, release.wait)
    loop.close()
    assert loop.unfinished_jobs() == [release.wait]
    release.set()
