"""What hooks are told of jobs: from where to where, when, and how they end."""

import asyncio
import socket
import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

import loopcore
from loopcore.testing.hooks.recorder import Recorder

pytestmark = pytest.mark.loopcore_only


class Watch(Recorder):
    """Writes down the jobs, and the thread in which each hook was called."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    @loopcore.hookimpl
    def loopcore_job_submitted(self, job: Any) -> None:
        self._note("submitted", job)

    @loopcore.hookimpl
    def loopcore_job_started(self, job: Any) -> None:
        self._note("started", job)

    @loopcore.hookimpl
    def loopcore_job_finished(self, job: Any) -> None:
        self._note("finished", job)

    def _note(self, what: str, job: Any) -> None:
        self.seen.append((what, {"job": job}))
        self.threads.append(threading.get_ident())

    def jobs(self) -> list[tuple[str, Any]]:
        return [(what, told["job"]) for what, told in self.seen if what in ("submitted", "started", "finished")]


@pytest.fixture
def watch(loop: Any) -> Watch:
    made = Watch()
    loop.probes.register(made)
    return made


def finish(loop: Any, call: Any) -> Any:
    async def main() -> Any:
        try:
            return await call()
        finally:
            await loop.shutdown_default_executor()

    return loop.run_until_complete(main())


def test_a_job_is_submitted_in_the_loops_thread_and_runs_in_the_pools(loop: Any, watch: Watch) -> None:
    thread = finish(loop, lambda: loop.run_in_executor(None, threading.get_ident))
    (one, two, three) = watch.jobs()
    assert [one[0], two[0], three[0]] == ["submitted", "started", "finished"]
    assert one[1] is two[1] is three[1]
    job = one[1]
    assert watch.threads == [threading.get_ident(), thread, thread]
    assert (job.function, job.pool, job.thread_id, job.error) == (threading.get_ident, "default", thread, None)
    assert 0 < job.submitted_ns <= job.started_ns <= job.finished_ns
    assert "default" in repr(job)


def test_the_error_of_a_job_is_told_and_reaches_its_caller(loop: Any, watch: Watch) -> None:
    with pytest.raises(ValueError) as caught:
        finish(loop, lambda: loop.run_in_executor(None, int, "none"))
    assert watch.jobs()[-1][1].error is caught.value


@pytest.mark.parametrize("debug", [False, True])
def test_look_ups_of_names_are_jobs_of_the_resolver(
    loop: Any, watch: Watch, monkeypatch: pytest.MonkeyPatch, debug: bool
) -> None:
    def look_up(*question: Any) -> list[Any]:
        if question[-1] & socket.AI_NUMERICHOST:
            raise socket.gaierror
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    loop.set_debug(debug)
    finish(loop, lambda: loop.getaddrinfo("name.invalid", 80))
    assert {job.pool for _, job in watch.jobs()} == {"resolver"}


def test_another_thread_pool_is_named_by_its_representation(loop: Any, watch: Watch) -> None:
    with ThreadPoolExecutor(1) as pool:
        finish(loop, lambda: loop.run_in_executor(pool, int))
        assert [(what, job.pool) for what, job in watch.jobs()] == [
            (what, repr(pool)) for what in ("submitted", "started", "finished")
        ]


async def test_a_job_that_is_cancelled_before_it_runs_is_finished_and_never_started(loop: Any, watch: Watch) -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = loop.run_in_executor(pool, gate.wait)
        waiting = loop.run_in_executor(pool, int)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)  # the cancellation reaches the pool by a callback
        gate.set()
        await running
    ends = {job.function: job for what, job in watch.jobs() if what == "finished"}
    started = [job.function for what, job in watch.jobs() if what == "started"]
    assert started == [gate.wait]
    assert isinstance(ends[int].error, asyncio.CancelledError)
    assert (ends[int].started_ns, ends[int].thread_id) == (0, None)


class Inline(Executor):
    """Runs at once what it is given, or refuses it."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
        if self.refuses:
            raise RuntimeError("closed")
        future: Future[Any] = Future()
        future.set_result(fn(*args))
        return future


def test_an_executor_without_threads_is_told_of_at_both_ends(loop: Any, watch: Watch) -> None:
    assert finish(loop, lambda: loop.run_in_executor(Inline(), int)) == 0
    assert [what for what, _ in watch.jobs()] == ["submitted", "finished"]


def test_a_job_that_is_refused_is_finished(loop: Any, watch: Watch) -> None:
    with pytest.raises(RuntimeError, match="closed"):
        loop.run_in_executor(Inline(refuses=True), int)
    assert [what for what, _ in watch.jobs()] == ["submitted", "finished"]
    assert isinstance(watch.jobs()[-1][1].error, RuntimeError)


def test_what_goes_to_another_process_is_sent_as_it_is(loop: Any, watch: Watch) -> None:
    class Sending(ProcessPoolExecutor):
        """Looks at what would be pickled."""

        given: Any = None

        def __init__(self) -> None:
            """Start nothing: from Python 3.14 on a pool of processes has helpers that outlive it."""

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
            self.given = fn
            future: Future[Any] = Future()
            future.set_result(None)
            return future

    pool = Sending()
    finish(loop, lambda: loop.run_in_executor(pool, int))
    assert pool.given is int


def test_without_a_hook_of_jobs_the_function_is_given_as_it_is(loop: Any) -> None:
    class Given(Inline):
        function: Any = None

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> "Future[Any]":
            self.function = fn
            return super().submit(fn, *args, **kwargs)

    class Other:
        @loopcore.hookimpl
        def loopcore_task_done(self) -> None: ...

    loop.probes.register(Other())
    given = Given()
    finish(loop, lambda: loop.run_in_executor(given, int))
    assert given.function is int


def test_a_plugin_that_raises_in_a_pools_thread_is_taken_out_and_the_job_goes_on(
    loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        @loopcore.hookimpl
        def loopcore_job_started(self) -> None:
            raise ValueError("plugin")

    loop.probes.register(Broken(), "broken")
    assert finish(loop, lambda: loop.run_in_executor(None, int)) == 0
    assert loop.probes.failures == {"broken": 1}
    assert "loopcore_job_started" in caplog.text
