"""Five planted causes of lateness, each as a recording of one request that was late: see `Builder`."""

from tests.plugins.recorder.building import IO, SOON, THREADSAFE, TIMER, Builder, Kind

REQUEST, OTHER, CALLBACK, READER = 0x1000, 0x2000, 0x3000, 0x4000
WORKERS = "/srv/lib/python3.14/site-packages/anyio/_backends/_asyncio.py"
IN_THREAD = ("AsyncIOBackend.run_sync_in_worker_thread", WORKERS, 2743)
LOCKS = "/usr/lib/python3.14/asyncio/locks.py"


def a_request_arrives(build: Builder, who: int = REQUEST, name: str = "handle") -> None:
    """An event makes a reader spawn the request's task."""
    build.wake(READER, "Protocol.data_received", IO)
    build.begin(READER, "Protocol.data_received", IO)
    build.at += 0.1
    build.wake(who, name, kind=Kind.SPAWN)
    build.at += 0.1


def blocking_call(build: Builder) -> None:
    """Another handler sleeps for 300 ms; the request's data arrives meanwhile."""
    build.wait(100, events=1)
    build.clocks(10)
    a_request_arrives(build, OTHER, "report")
    build.step(OTHER, "report", 300, line=12)
    build.done(OTHER)
    build.record(Kind.WAIT)
    build.clocks(11)
    build.at += 0.01
    build.tick(1)
    a_request_arrives(build)
    build.step(REQUEST, "handle", 0.5)
    build.done(REQUEST)
    frames = [["report", "/srv/app.py", 13], ["read", "/usr/lib/python3.14/socket.py", 700]]
    build.stall("blocked", 110.2, 400.2, stack=frames)
    build.wait(500)


def thread_holds_the_gil(build: Builder) -> None:
    """The request's step takes 200 ms, in which the loop's thread does nothing."""
    build.wait(100, events=1)
    build.clocks(10)
    a_request_arrives(build)
    build.step(REQUEST, "handle", 200)
    build.done(REQUEST)
    build.record(Kind.WAIT)
    build.clocks(11)
    holder = {"thread": "cruncher", "place": ["crunch", "/srv/crunch.py", 5], "cpu_seconds": 0.19}
    build.stall("gil", 105.2, 300.2, holder=holder)
    build.at += 0.01
    build.tick()
    build.wait(500)


def full_executor(build: Builder) -> None:
    """The request's job waits 400 ms for a thread, and runs for 20 ms; another thread posts before it does."""
    build.submit(901, "resize")
    build.submit(902, "resize")
    build.wait(100, events=1)
    a_request_arrives(build)
    build.begin(REQUEST, "handle")
    build.submit(903, "look_up")
    build.at += 0.2
    build.wait(500)
    for number, job in enumerate((901, 902)):
        build.job(job, "resize", started=0.1, ended=500, thread=f"loopcore_{number}")
        build.wake(CALLBACK + number, "deliver", THREADSAFE, Kind.POST)
        build.step(CALLBACK + number, "deliver", 0.1, THREADSAFE)
    build.wait(520.5)
    build.job(903, "look_up", started=500.4, ended=520.4)
    build.wake(OTHER, "posted", THREADSAFE, Kind.POST)
    build.step(OTHER, "posted", 0.1, THREADSAFE)
    build.wake(CALLBACK, "deliver", THREADSAFE, Kind.POST)
    build.begin(CALLBACK, "deliver", THREADSAFE)
    build.wake(REQUEST, "handle")
    build.at += 0.1
    build.step(REQUEST, "handle", 0.3)
    build.done(REQUEST)
    build.wait(600)


def lock_across_an_await(build: Builder) -> None:
    """Another task sleeps for 250 ms while it holds the lock that the request wants."""
    build.wake(OTHER, "refresh", kind=Kind.SPAWN)
    build.name(OTHER, "refresher")
    build.step(OTHER, "refresh", 0.1)
    build.wait(20, events=1)
    a_request_arrives(build)
    build.step(REQUEST, "handle", 0.2)
    build.wait(270)
    build.due(269.5)
    build.begin(CALLBACK, "set_result", TIMER)
    build.wake(OTHER, "refresh")
    build.at += 0.1
    build.site(OTHER, ("refresh", "/srv/app.py", 31), ("sleep", "/usr/lib/python3.14/asyncio/tasks.py", 700))
    build.begin(OTHER, "refresh")
    build.wake(REQUEST, "handle")
    build.at += 0.1
    build.site(REQUEST, ("handle", "/srv/app.py", 41), ("Lock.acquire", LOCKS, 110))
    build.step(REQUEST, "handle", 0.4)
    build.done(REQUEST)
    build.wait(400)


def neighbour_takes_the_cpu(build: Builder) -> None:
    """The request's step needs 20 ms of CPU and takes 200 ms."""
    build.wait(100, events=1)
    build.clocks(10, 1)
    a_request_arrives(build)
    build.step(REQUEST, "handle", 200)
    build.done(REQUEST)
    build.record(Kind.WAIT)
    build.clocks(30.2, 181)
    build.at += 0.01
    build.tick()
    build.wait(500)


def full_pool_of_anyio(build: Builder) -> None:
    """The request waits 180 ms until another's function has left the only thread; then its own runs for 200 ms."""
    a_request_arrives(build, OTHER, "upload")
    build.step(OTHER, "upload", 0.1)
    build.wait(20, events=1)
    a_request_arrives(build)
    build.step(REQUEST, "handle", 0.2)
    _thread_posts(build, 200, OTHER, "upload", "scan")
    build.wake(REQUEST, "handle")
    build.at += 0.1
    build.done(OTHER)
    await_of = (("CapacityLimiter.acquire", WORKERS, 2261), ("Event.wait", LOCKS, 213))
    build.site(REQUEST, ("handle", "/srv/app.py", 41), IN_THREAD, *await_of)
    build.step(REQUEST, "handle", 0.1)
    _thread_posts(build, 400, REQUEST, "handle", "look_up")
    build.at += 0.1
    build.done(REQUEST)
    build.wait(500)


def _thread_posts(build: Builder, at: float, task: int, name: str, function: str) -> None:
    build.wait(at)
    build.wake(CALLBACK, "WorkerThread._report_result", THREADSAFE, Kind.POST)
    build.begin(CALLBACK, "WorkerThread._report_result", THREADSAFE)
    build.wake(CALLBACK + 1, "Task._wakeup", SOON)
    build.at += 0.05
    build.begin(CALLBACK + 1, "Task._wakeup", SOON)
    build.wake(task, name)
    build.site(task, (name, "/srv/app.py", 41), IN_THREAD, (function, "/srv/app.py", 7))
    build.begin(task, name)


ALL = (blocking_call, thread_holds_the_gil, full_executor, lock_across_an_await, neighbour_takes_the_cpu)
