"""Chains: from a step back to the cause of its lateness, wake by wake.

A step of a task ends a leg: since the task's last step it waited for something, then for its turn, then it ran. The
records say what ended the wait: the step that ran when the task was woken. If that is a callback, it has a cause of the
same form: a timer, an event, a job of an executor, a callback of another thread. If it is another task's step, the same
time is split again, as the other task spent it. Every list of parts adds up to the time that it splits.
"""

from collections import Counter
from typing import Final

from loopcore.hooks.sources import IO
from loopcore_plugins.recorder.causes import (
    Part,
    Why,
    gil_of,
    merged,
    of_loop,
    of_step,
    of_wait,
    run_queue_of,
)
from loopcore_plugins.recorder.layout import Kind
from loopcore_plugins.recorder.model import ANYIO, Job, Model, Step, Task, Wait, worker_site
from loopcore_plugins.recorder.reading import Label, own_code

DEEPEST: Final = 40
"""The most links of a chain."""
REAL_WAIT: Final = 100_000
"""Nanoseconds from which on a wait has waited: what was ready then had become ready in it."""


class Chains:
    """Explains times. Thread: any."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def leg(self, step: Step) -> tuple[int, list[Part]]:
        """Return when the wait before a step began, and the parts of the time from then to the step's end."""
        begin = self.origin_of(step) if step.previous is None else min(step.previous.end, step.begin)
        return begin, self._told(step, begin)

    def run(self, step: Step) -> list[Part]:
        """Return the parts of the time in which a step ran."""
        return self._told(step, step.begin)

    def life(self, task: Task) -> tuple[int, int, list[Part]]:
        """Return when a task's life began and ended, which may be the end of the recording, and its parts."""
        begin, last = self.origin_of(task.steps[0]), task.steps[-1]
        end = last.end if task.done else self.model.recording.end
        site = own_code(self.model.recording.stacks.get(task.who, ()))
        return begin, end, merged([Part(Why.STILL, end - last.end, site), *self._told(last, begin)])

    def origin_of(self, step: Step) -> int:
        """Return when what led to the first step began: of a request, when the loop could have seen its data."""
        for _ in range(DEEPEST):
            wake = step.wake
            if step.deadline or wake is None or wake.by is None or wake.by.task is not None:
                return self.ready(step)[0]
            step = wake.by
        return step.begin

    def ready(self, step: Step) -> tuple[int, int]:
        """Return from when on a step was ready, at the earliest and at the latest."""
        wake, wait = step.wake, step.wait
        if step.deadline:
            return step.deadline, step.deadline
        is_exact = wake is not None and (wake.by is not None or (wake.job is not None and wake.job.is_measured))
        if wake is not None and (is_exact or wait is None):
            return (min(wake.at, step.begin),) * 2
        if wait is None or (wake is None and step.source != IO):
            return step.begin, step.begin
        # An event, or another thread's callback: the loop found it when it next looked.
        late = gil_of(self.model, wait) + run_queue_of(self.model, wait)
        latest = max(wait.end - late, wait.begin)
        if wait.may_block and wait.end - wait.begin >= REAL_WAIT:
            return latest, latest
        return (wait.before.end if wait.before is not None else wait.begin), latest

    def waited_for(self, step: Step) -> tuple[Why, Job | None]:
        """Return what a task waited for before a step, and the job, if it was one."""
        woken = step
        for _ in range(DEEPEST):
            wake = woken.wake
            if woken.deadline or wake is None:
                return (Why.SLEEP if woken.deadline else Why.IO if woken.source == IO else Why.UNKNOWN), None
            if wake.job is not None:
                return Why.EXECUTOR, wake.job
            if wake.by is None:
                return (Why.THREAD if wake.kind is Kind.POST else Why.IO), None
            woken = wake.by
            if woken.task is not None:
                return _kind_of(step, woken), None
        return Why.UNKNOWN, None

    def _told(self, step: Step, begin: int) -> list[Part]:
        parts = merged(self._back(step, begin, step.end, 0))
        for part in parts:
            if part.why is Why.RUNNING and part.who == self.model.name_of(step):
                part.who = ""  # it is the one that is explained
        return merged(parts)

    def _back(self, step: Step, begin: int, end: int, depth: int, site: Label | None = None) -> list[Part]:
        """Return the parts of the time from `begin` to `end`, at which the step runs or ends.

        `site` is where the task was suspended that this callback woke.
        """
        parts: list[Part] = []
        end = max(end, begin)
        while True:
            ran_from = min(max(step.begin, begin), end)
            if end > ran_from:
                causes = of_step(self.model, step, ran_from, end)
                note = "it had not returned" if step.is_open else ""
                who = self.model.name_of(step)
                parts.append(Part(Why.RUNNING, end - ran_from, step.label, who, note, parts=causes, step=step))
            before = step.previous
            floor = begin if before is None else min(max(before.end, begin), ran_from)
            parts += self._waited(step, floor, ran_from, depth, own_code(step.sites) or site)
            if before is None or floor == begin:
                return parts
            step, end = before, floor

    def _waited(self, step: Step, begin: int, end: int, depth: int, site: Label | None) -> list[Part]:
        """Return the parts of the time before a step: it waited for something, then for its turn."""
        earliest, latest = self.ready(step)
        ready = min(max(earliest, begin), end)
        parts = []
        if ready < end:
            turn = Part(Why.TURN, end - ready, parts=self._turn(ready, end))
            if earliest < latest and ready < min(latest, end):
                turn.note = "at most, as its event may have come later"
            parts.append(turn)
        return [*parts, *(self._cause(step, begin, ready, depth, site) if begin < ready else [])]

    def _turn(self, begin: int, end: int) -> list[Part]:
        """Return what the loop did from `begin` to `end`."""
        parts: list[Part] = []
        at = begin
        for span in self.model.between(begin, end):
            since, until = max(span.begin, at), min(span.end, end)
            if since > at:
                parts.append(Part(Why.LOOP, since - at, parts=of_loop(self.model, at, since)))
            if isinstance(span, Wait):
                parts += of_wait(self.model, span, since, until)
            else:
                causes = of_step(self.model, span, since, until)
                who = self.model.name_of(span)
                parts.append(Part(Why.BEHIND, until - since, span.label, who, parts=causes, step=span))
            at = until
        if end > at:
            parts.append(Part(Why.LOOP, end - at, parts=of_loop(self.model, at, end)))
        return merged(parts)

    def _cause(self, step: Step, begin: int, end: int, depth: int, site: Label | None) -> list[Part]:
        """Return the parts of the time up to the wake of a step."""
        wake = step.wake
        if depth >= DEEPEST:
            return [Part(Why.UNKNOWN, end - begin, note="the chain of wakes is longer than can be told")]
        if step.deadline:
            return [Part(Why.SLEEP, end - begin, site)]
        if wake is None:
            if step.source == IO:
                return [Part(Why.IO, end - begin, site or step.label)]
            return [Part(Why.UNKNOWN, end - begin, site, note="the recording does not have its wake")]
        if wake.job is not None:
            return self._job(wake.job, begin, end, depth)
        if wake.by is None:
            return [Part(Why.THREAD if wake.kind is Kind.POST else Why.IO, end - begin, site or step.label)]
        if wake.by.task is None:
            return self._back(wake.by, begin, end, depth + 1, site)
        if step.task is not None and wake.by.task is step.task:
            return [Part(Why.UNKNOWN, end - begin, site, note="it woke itself")]
        kind = _kind_of(step, wake.by)
        if kind is Why.POOL:
            return [Part(kind, end - begin, note=self._busy_with(ANYIO, begin, end))]
        inner = merged(self._back(wake.by, begin, end, depth + 1))
        return [Part(kind, end - begin, site, self.model.name_of(wake.by), parts=_flat(inner, kind))]

    def _job(self, job: Job, begin: int, end: int, depth: int) -> list[Part]:
        """Return the parts of the wait for a job of an executor."""
        ended = min(max(job.ended or end, begin), end)
        started = min(max(job.started or ended, begin), ended)
        submitted = min(max(job.submitted or begin, begin), started)
        parts = []
        if ended < end:
            parts.append(Part(Why.TURN, end - ended, parts=self._turn(ended, end)))
        if started < ended:
            parts.append(Part(Why.EXECUTOR, ended - started, job.label, job.thread))
        if submitted < started:
            parts.append(Part(Why.POOL, started - submitted, note=self._busy_with(job.pool, submitted, started)))
        if begin < submitted and job.by is not None:
            parts += self._back(job.by, begin, submitted, depth + 1)
        elif begin < submitted:
            parts.append(Part(Why.UNKNOWN, submitted - begin, note="the recording does not have the job's beginning"))
        return parts

    def _busy_with(self, pool: str, begin: int, end: int) -> str:
        """Return what ran in an executor meanwhile."""
        others = [each for each in self.model.jobs if each.pool == pool]
        ran = Counter(str(each.label) for each in others if each.started < end and (each.ended or end) > begin)
        return (
            "its threads ran " + ", ".join(f"{label} ({number})" for label, number in ran.most_common(3)) if ran else ""
        )


def _kind_of(step: Step, waker: Step) -> Why:
    """Return what a task waited for that another one woke, from the function in which it was suspended."""
    if step.sites:
        worker = worker_site(step.sites)
        if worker is not None and worker.function is None:
            return Why.POOL
        inner = step.sites[-1]
        name, file = inner.name.rpartition(".")[2], inner.file.replace("\\", "/").rpartition("/")[2]
        if name == "acquire" or inner.name.endswith(("Lock.__aenter__", "Semaphore.__aenter__")):
            return Why.LOCK
        if file == "queues.py" or inner.name.startswith(("Queue.", "Stream.")):
            return Why.QUEUE
        if inner.name.partition(".")[0] in ("Event", "Condition", "Barrier"):
            return Why.EVENT
        return Why.END if waker.finishes else Why.TASK
    return Why.TASK


def _flat(parts: list[Part], kind: Why) -> list[Part]:
    """Replace waits for the same kind of thing by their parts: the holders of a lock, one after the other."""
    flat: list[Part] = []
    for part in parts:
        flat += part.parts if part.why is kind and part.parts and kind in (Why.LOCK, Why.QUEUE) else [part]
    return merged(flat)
