"""The executor: runs blocking functions in threads, and brings their results back to the loop.

No thread exists before the first call needs one. Names are looked up in a separate pool of the same size: if a program
has filled the default executor, with downloads for example, name servers must not seem to have stopped answering
(cpython#112169). Results are passed by `call_soon_threadsafe`: see `loopcore.services.delivery`.

While a plugin has a hook for jobs, each job has a record, a Job, which the pool runs in place of the function.
"""

import asyncio
import socket
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from concurrent.futures import Future as PoolFuture
from time import perf_counter_ns
from typing import Any, TypeVar, TypeVarTuple, Unpack

from loopcore.kernel.handle import check_callback
from loopcore.kernel.probes import Probes
from loopcore.services.delivery import wrap_pool_future

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

THREAD_PREFIX = "loopcore"
"""Worker threads are called loopcore_0, loopcore_1 ..., so that dumps distinguish them from those of other loops."""


def _is_of_interpreters(executor: Executor) -> bool:
    """Return whether this pool (Python 3.14) accepts only what can be sent to another interpreter."""
    module = sys.modules.get("concurrent.futures.interpreter")  # not imported, as that takes 5 ms
    return module is not None and isinstance(executor, module.InterpreterPoolExecutor)


class Job:
    """A call in an executor, as hooks see it. Times are in ns of `time.perf_counter_ns`, 0 until they are known.

    Thread: created in the loop's; filled in where the job runs, before the hook that reports it.
    """

    __slots__ = (
        "_loop",
        "_probes",
        "error",
        "finished_ns",
        "function",
        "pool",
        "started_ns",
        "submitted_ns",
        "thread_id",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, probes: Probes, pool: str, function: Callable[..., Any]
    ) -> None:
        self._loop = loop
        self._probes = probes
        self.pool = pool
        """"default", "resolver" for name look-ups, or the `repr` of another executor."""
        self.function = function
        self.submitted_ns = perf_counter_ns()
        self.started_ns = 0
        self.finished_ns = 0
        self.thread_id: int | None = None
        """`threading.get_ident()` of the thread that runs the job, once it does."""
        self.error: BaseException | None = None
        """The exception that the function raised, or the reason why it did not run."""
        self._fire("submitted")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.function!r} in {self.pool}>"

    def run(self, *args: Any) -> Any:
        """Call the function, and report its start and end. Thread: the pool's."""
        self.thread_id = threading.get_ident()
        self.started_ns = perf_counter_ns()
        self._fire("started")
        try:
            result = self.function(*args)
        except BaseException as exc:
            self.finish(exc)
            del self  # the traceback keeps this frame, which would keep the record and its exception
            raise
        self.finish(None)
        return result

    def finish(self, error: BaseException | None) -> None:
        """Report the end, with the exception raised."""
        self.error = error
        self.finished_ns = perf_counter_ns()
        self._fire("finished")

    def settle(self, future: "PoolFuture[Any]") -> None:
        """Report an end that `run` has not: the job was cancelled before it ran, or did not run through this record."""
        if not self.finished_ns:
            self.finish(asyncio.CancelledError() if future.cancelled() else future.exception())

    def _fire(self, what: str) -> None:
        if self._probes.watching_jobs:
            self._probes.fire(f"loopcore_job_{what}", self._loop, self)


class Executors:
    """The default executor of one loop, and the way to any other executor.

    Thread: the loop's own, except for the shutdown, which waits in a separate thread.
    """

    __slots__ = ("_default", "_host", "_jobs", "_probes", "_resolver", "_shutdown_called", "_threads")

    def __init__(self, host: asyncio.AbstractEventLoop, probes: Probes, threads: int | None) -> None:
        """`threads` is the maximum number of threads in each of the loop's own pools; None for asyncio's default."""
        self._host = host
        self._probes = probes
        self._threads = threads
        self._default: ThreadPoolExecutor | None = None
        self._resolver: ThreadPoolExecutor | None = None
        self._jobs: dict[PoolFuture[Any], Callable[..., Any]] = {}
        self._shutdown_called = False

    def run(self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts) -> "asyncio.Future[T]":
        """Run `func(*args)` in `executor`, or in the default one; return a future of its result.

        Raises RuntimeError if the default executor is used and was shut down.
        """
        if self._host.get_debug():
            check_callback(func, "run_in_executor")
        chosen = self._own_executor(func) if executor is None else executor
        job = self._submit(chosen, func, args) if self._probes.watching_jobs else chosen.submit(func, *args)
        if not isinstance(job, PoolFuture):
            return asyncio.wrap_future(job, loop=self._host)  # an asyncio future, or an error
        if executor is None:
            self._jobs[job] = func
        return wrap_pool_future(self._host, job, self._jobs if executor is None else None)

    def _submit(self, executor: Executor, func: Callable[..., T], args: tuple[Any, ...]) -> "PoolFuture[T]":
        names = {id(self._default): "default", id(self._resolver): "resolver"}
        pool = names.get(id(executor)) or repr(executor)
        job = Job(self._host, self._probes, pool, func)
        # A job that does not run in this interpreter's threads cannot get this record.
        within = isinstance(executor, ThreadPoolExecutor) and not _is_of_interpreters(executor)
        try:
            future = executor.submit(job.run if within else func, *args)
        except BaseException as exc:
            job.finish(exc)
            raise
        future.add_done_callback(job.settle)
        return future

    def set_default(self, executor: ThreadPoolExecutor) -> None:
        """Replace the default executor; the caller shuts down the old one. Raises TypeError as asyncio does."""
        if not isinstance(executor, ThreadPoolExecutor):
            raise TypeError("executor must be ThreadPoolExecutor instance")
        self._default = executor

    def unfinished(self) -> "list[Callable[..., Any]]":
        """Return the functions that run in the loop's own threads, or wait for one, in the order of submission."""
        return list(self._jobs.values())

    async def shutdown(self, timeout: float | None = None) -> None:
        """Wait until the jobs of the loop's own executors are done and their threads ended, at most `timeout` seconds.

        After that time a RuntimeWarning lists the functions that have not finished, and the threads are left running.
        """
        self._shutdown_called = True
        executors = [executor for executor in (self._default, self._resolver) if executor is not None]
        if not executors:
            return
        joined: PoolFuture[None] = PoolFuture()
        joined.set_running_or_notify_cancel()  # a timeout does not cancel it
        thread = threading.Thread(target=_join, args=(executors, joined), name=f"{THREAD_PREFIX}_shutdown")
        thread.start()
        try:
            async with asyncio.timeout(timeout):
                await wrap_pool_future(self._host, joined, None)
        except TimeoutError:
            late = ", ".join(_name_of(func) for func in self.unfinished())
            warnings.warn(
                f"The executor did not finishing joining its threads within {timeout} seconds. Not finished: {late}",
                RuntimeWarning,
                stacklevel=3,
            )
            for executor in executors:
                executor.shutdown(wait=False)
        else:
            thread.join()

    def forget(self) -> None:
        """Drop the loop's own executors: their threads exist only in the parent of this process."""
        self._default = self._resolver = None
        self._jobs.clear()

    def close(self) -> None:
        """Let the loop's own executors end in the background, without waiting for them."""
        self._shutdown_called = True
        for executor in (self._default, self._resolver):
            if executor is not None:
                executor.shutdown(wait=False)
        self._default = self._resolver = None

    def _own_executor(self, func: Callable[..., Any]) -> ThreadPoolExecutor:
        if self._shutdown_called:
            raise RuntimeError("Executor shutdown has been called")
        if _is_look_up(func):
            if self._resolver is None:
                self._resolver = ThreadPoolExecutor(self._threads, thread_name_prefix=f"{THREAD_PREFIX}_resolver")
            return self._resolver
        if self._default is None:
            self._default = ThreadPoolExecutor(self._threads, thread_name_prefix=THREAD_PREFIX)
        return self._default


def _is_look_up(func: Callable[..., Any]) -> bool:
    wrapped = getattr(func, "__wrapped__", func)  # in debug mode the resolver wraps it, to time it
    return wrapped is socket.getaddrinfo or wrapped is socket.getnameinfo


def _name_of(func: Callable[..., Any]) -> str:
    name = getattr(func, "__qualname__", None)
    return f"{getattr(func, '__module__', None)}.{name}" if name is not None else repr(func)


def _join(executors: list[ThreadPoolExecutor], joined: "PoolFuture[None]") -> None:
    try:
        for executor in executors:
            executor.shutdown(wait=True)
    except Exception as exc:
        joined.set_exception(exc)
    else:
        joined.set_result(None)
