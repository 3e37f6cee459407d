"""Model: the steps and waits of a loop, its wakes, tasks, jobs and clocks, made from the records.

The thread of a loop alternates between waits and steps; a step is one run of a callback or a task, and lasts until the
next step or wait. All times are nanoseconds as in `reading`.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from loopcore.hooks.sources import TASK, TIMER
from loopcore_plugins._tasktree import IN_THREAD
from loopcore_plugins.recorder.layout import Kind, Outcome
from loopcore_plugins.recorder.reading import Event, Label, Recording, Stall

ANYIO: Final = "AnyIO worker thread"
"""The name of all of anyio's threads."""
LONG_GIL_WAIT: Final = 1_000_000
DELIVER: Final = "deliver"
"""The callback by which an executor's result comes to the loop (`loopcore.services.delivery`)."""


@dataclass(slots=True, eq=False)
class Job:
    """A function in an executor. Times are 0 if they are not known."""

    who: int
    label: Label
    by: "Step | None" = None
    """The step that submitted it."""
    submitted: int = 0
    started: int = 0
    ended: int = 0
    thread: str = ""
    failed: bool = False
    is_measured: bool = True
    """Its times are exact."""

    @property
    def pool(self) -> str:
        """What the names of an executor's threads have in common."""
        return self.thread.rpartition("_")[0] or self.thread


@dataclass(slots=True, eq=False)
class Wake:
    """Something was put on the ready queue."""

    at: int
    kind: Kind
    by: "Step | None"
    """None: the loop itself, or another thread (POST)."""
    job: Job | None = None


@dataclass(slots=True, eq=False)
class Wait:
    """A wait for events. `begin` is when it began, or the begin of the recording."""

    begin: int
    end: int
    may_block: bool
    gil: int = 0
    """Nanoseconds at its end for which the thread had returned from the system and waited for the GIL."""
    before: "Wait | None" = None
    events: int = 0


@dataclass(slots=True, eq=False)
class Task:
    """One life of a task."""

    who: int
    name: str
    label: Label
    spawned: Wake | None
    steps: "list[Step]" = field(default_factory=list)
    done: int = 0
    outcome: str = ""


@dataclass(slots=True, eq=False)
class Step:
    """One run of a callback, or one step of a task."""

    begin: int
    end: int
    who: int
    label: Label
    source: int
    wait: Wait | None
    """The wait before it."""
    wake: Wake | None = None
    deadline: int = 0
    """Of a timer: when it was due; 0 if that is not known."""
    task: Task | None = None
    previous: "Step | None" = None
    """The task's step before."""
    sites: tuple[Label, ...] = ()
    """Where the task was suspended before it, outermost first; empty if that was short."""
    finishes: bool = False
    """The task is done after it."""
    is_open: bool = False
    """The recording ends in it."""


class Sample(NamedTuple):
    """A cumulative clock: its value, in ns, at a time."""

    at: int
    value: int


class Change(NamedTuple):
    """How much a cumulative clock went on between two samples."""

    begin: int
    end: int
    ns: int


class Model:
    """The steps and waits of a recording, in order. Thread: made once, then only read."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.spans: list[Step | Wait] = []
        self.tasks: list[Task] = []
        self.jobs: list[Job] = []
        self.errors: list[tuple[int, Label]] = []
        self.gil_waits: list[int] = []
        """When the thread had the GIL again for which it had waited for a millisecond or longer, after a wait."""
        self.collections: list[tuple[int, int]] = []
        self.cpu: list[Sample] = []
        self.run_queue: list[Sample] = []
        self.stalls: list[Stall] = recording.stalls
        _Builder(self).build()
        self._begins = [span.begin for span in self.spans]

    @property
    def steps(self) -> Iterator[Step]:
        return (span for span in self.spans if isinstance(span, Step))

    def between(self, begin: int, end: int) -> Iterator[Step | Wait]:
        """Yield the steps and waits that overlap a time, in order."""
        for position in range(max(bisect_right(self._begins, begin) - 1, 0), len(self.spans)):
            span = self.spans[position]
            if span.begin >= end:
                return
            if span.end > begin:
                yield span

    def collected(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the collections of the garbage collector that ended in a time, as (begin, end)."""
        first = bisect_right(self.collections, begin, key=lambda each: each[1])
        return self.collections[first : bisect_right(self.collections, end, key=lambda each: each[1])]

    def name_of(self, step: Step) -> str:
        """Return the name of a step's task; empty for a callback."""
        return "" if step.task is None else step.task.name


class WorkerSite(NamedTuple):
    """Where a task waits for anyio's threads: for a free one, or for the end of `function` in one."""

    function: Label | None
    pool: str


def worker_site(sites: Sequence[Label]) -> WorkerSite | None:
    """Return for what a task waits that is suspended at `sites`, outermost first; None if not for anyio's threads."""
    at = next((number for number, site in enumerate(sites) if site.name.endswith(IN_THREAD)), None)
    if at is None or at == len(sites) - 1:
        return None
    inner = sites[at + 1]
    if inner.name.startswith("CapacityLimiter."):
        return WorkerSite(None, ANYIO)
    return WorkerSite(inner, ANYIO) if at == len(sites) - 2 else None


def change(samples: list[Sample], begin: int, end: int) -> Change | None:
    """Return how much a clock went on around a time; None unless it was read on both sides."""
    before = bisect_right(samples, begin, key=lambda sample: sample.at) - 1
    after = bisect_left(samples, end, key=lambda sample: sample.at)
    if before < 0 or after >= len(samples):
        return None
    return Change(samples[before].at, samples[after].at, max(samples[after].value - samples[before].value, 0))


class _Builder:
    """Goes through the events once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._recording = model.recording
        self._step: Step | None = None
        self._wait: Wait | None = None  # the last one
        self._waiting: int | None = None  # since when the loop waits; None if it does not
        self._may_block = False
        self._gil = 0
        self._wakes: dict[int, Wake] = {}
        self._alive: dict[int, Task] = {}
        self._names: dict[int, str] = {}
        self._jobs: dict[int, Job] = {}
        self._over: list[Job] = []  # jobs that are over, and whose results have not been delivered yet
        self._job: Job | None = None
        self._deadlines: deque[int] = deque()
        self._sites: dict[int, list[Label]] = {}
        monotonic = self._recording.facts.get("loop_clock_is_monotonic", True)
        self._has_deadlines = monotonic is True
        self._handlers: dict[Kind, Callable[[Event], None]] = {
            Kind.TICK: self._tick,
            Kind.WAIT: self._wait_begins,
            Kind.BEGIN: self._begin,
            Kind.DONE: self._done,
            Kind.WAKE: self._woken,
            Kind.SPAWN: self._woken,
            Kind.POST: self._woken,
            Kind.NAME: self._named,
            Kind.SITE: self._site,
            Kind.DUE: self._due,
            Kind.JOB_SUBMITTED: self._submitted,
            Kind.JOB: self._job_over,
            Kind.JOB_STARTED: self._job_started,
            Kind.JOB_ENDED: self._job_ended,
            Kind.COLLECTED: lambda event: self._model.collections.append((event.at - event.who, event.at)),
            Kind.CPU: lambda event: self._model.cpu.append(Sample(event.at, event.who)),
            Kind.RUN_QUEUE: lambda event: self._model.run_queue.append(Sample(event.at, event.who)),
            Kind.ERROR: lambda event: self._model.errors.append((event.at, self._label(event))),
        }

    def build(self) -> None:
        for event in self._recording.events:
            handler = self._handlers.get(event.kind)
            if event.kind is Kind.GIL:
                self._gil = event.who
            elif handler is not None:
                handler(event)
        if self._step is not None:
            self._step.is_open = True
            self._close(self._recording.end)
        elif self._waiting is not None:
            self._add(Wait(self._waiting, self._recording.end, self._may_block, 0, self._wait))
        for task in self._model.tasks:
            if not task.done:
                task.name = self._recording.names.get(task.who, task.name)

    def _label(self, event: Event) -> Label:
        return self._recording.label(event.label)

    def _add(self, span: Step | Wait) -> None:
        self._model.spans.append(span)

    def _close(self, at: int) -> None:
        """End the step that runs."""
        if self._step is not None:
            self._step.end = at
            if self._step.finishes and self._step.task is not None:
                self._step.task.done = at
            self._step = None

    def _tick(self, event: Event) -> None:
        self._close(event.at)
        if self._waiting is not None:
            gil = min(self._gil, event.at - self._waiting)
            self._wait = Wait(self._waiting, event.at, self._may_block, gil, self._wait, event.label)
            self._add(self._wait)
            if gil >= LONG_GIL_WAIT:
                self._model.gil_waits.append(event.at)
        self._waiting, self._gil = None, 0
        self._deadlines.clear()

    def _wait_begins(self, event: Event) -> None:
        self._close(event.at)
        self._waiting, self._may_block = event.at, event.argument == 1

    def _begin(self, event: Event) -> None:
        self._close(event.at)
        label = self._label(event)
        step = Step(event.at, event.at, event.who, label, event.argument, self._wait, self._wakes.pop(event.who, None))
        if event.argument == TIMER and self._deadlines:
            deadline = self._deadlines.popleft()
            step.deadline = deadline if self._has_deadlines and deadline <= event.at else 0
        elif event.argument == TASK:
            task = self._alive.get(event.who)
            if task is None:
                task = self._new_task(event, step.wake if step.wake and step.wake.kind is Kind.SPAWN else None)
            step.task, step.previous = task, task.steps[-1] if task.steps else None
            sites = self._sites.pop(event.who, ())
            step.sites = tuple(sites) if task.steps else ()  # else they are of an earlier task with this identity
            task.steps.append(step)
            self._note_worker(step)
        self._step = step
        self._add(step)

    def _note_worker(self, step: Step) -> None:
        """Make a job of a function that a thread of anyio ran for a task: no hook sees it, but the await does."""
        site, before = worker_site(step.sites), step.previous
        if site is None or site.function is None or before is None:
            return
        wake = step.wake
        while wake is not None and wake.by is not None and wake.by.task is None:
            wake = wake.by.wake
        if wake is not None and wake.kind is Kind.POST and wake.job is None:
            # The thread takes it at once, and posts its result, which the loop finds at some time.
            begin, post = before.end, wake.at
            wake.job = Job(0, site.function, before, begin, begin, post, site.pool, is_measured=False)
            self._model.jobs.append(wake.job)

    def _new_task(self, event: Event, spawned: Wake | None) -> Task:
        label = self._label(event)
        name = self._names.pop(event.who, "") or f"{label.name}#{len(self._model.tasks) + 1}"
        task = self._alive[event.who] = Task(event.who, name, label, spawned)
        self._model.tasks.append(task)
        return task

    def _done(self, event: Event) -> None:
        task = self._alive.pop(event.who, None)
        if task is not None:
            task.done = event.at
            task.outcome = Outcome(event.argument).name.lower() if event.argument in set(Outcome) else ""
            step = self._step
            if step is not None and step.task is None and task.steps:  # it was stepped through a callback
                step.task, step.previous = task, task.steps[-1]
                task.steps.append(step)
            if step is not None and step.task is task:
                step.finishes = True

    def _woken(self, event: Event) -> None:
        by = None if event.kind is Kind.POST else self._step
        wake = Wake(event.at, event.kind, by)
        if by is not None and event.kind is Kind.WAKE and by.wake is not None and by.wake.job is None:
            self._deliver(by, by.wake, self._alive.get(event.who))
        self._wakes[event.who] = wake
        if event.kind is Kind.SPAWN:
            self._new_task(event, wake)

    def _deliver(self, step: Step, wake: Wake, task: Task | None) -> None:
        """If `step` delivers the result of a job, find the job: that of the task it wakes, or else the oldest."""
        if wake.kind is Kind.POST and step.label.name.rpartition(".")[2] == DELIVER and self._over:
            own = (job for job in self._over if task is not None and job.by is not None and job.by.task is task)
            wake.job = next(own, self._over[0])
            self._over.remove(wake.job)

    def _named(self, event: Event) -> None:
        name = self._label(event).name
        if event.who in self._alive:
            self._alive[event.who].name = name
        else:
            self._names[event.who] = name

    def _site(self, event: Event) -> None:
        self._sites.setdefault(event.who, []).append(self._label(event))

    def _due(self, event: Event) -> None:
        self._deadlines.append(event.who)

    def _submitted(self, event: Event) -> None:
        job = self._jobs[event.who] = Job(event.who, self._label(event), self._step, event.at)
        self._model.jobs.append(job)

    def _job_over(self, event: Event) -> None:
        job = self._jobs.pop(event.who, None)
        if job is None:
            job = Job(event.who, self._label(event))
            self._model.jobs.append(job)
        job.failed = event.argument == 1
        self._job = job
        self._over.append(job)

    def _job_started(self, event: Event) -> None:
        if self._job is not None:
            self._job.started, self._job.thread = event.who, self._label(event).name

    def _job_ended(self, event: Event) -> None:
        if self._job is not None:
            self._job.ended = event.who
            self._job = None
