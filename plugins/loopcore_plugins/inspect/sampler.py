"""Sampler: asks a loop for samples in a thread, and keeps the figures of the last minutes."""

import os
import threading
import time
from typing import Any, Final, NamedTuple

from loopcore.errors import LoopcoreError, UsageError
from loopcore_plugins.inspect.client import Client
from loopcore_plugins.inspect.figures import Frame, compare
from loopcore_plugins.inspect.observer import CALLBACKS, METER, PHASES
from loopcore_plugins.inspect.protocol import Message

KEPT: Final = 300
"""The number of frames in a history: five minutes at one a second."""
_SHARE: Final = 0.1
"""The share of time in which a question about all tasks may occupy the process, which may have very many."""
_SAMPLES: Final = 60
"""The number of samples that are kept."""
_SOON: Final = 0.25
"""Seconds from the first sample to the second, so that the first rates come soon."""
_FIRST: Final = 1.0
"""Seconds to wait for the meter: the loop turns it on itself, unless it is stalled."""


class Question(NamedTuple):
    """A question asked along with each sample: its name, and a task's id or None."""

    ask: str
    task: int | None = None


class Reply(NamedTuple):
    """A question, and its answer; an error is the answer `{"error": text}`."""

    question: Question
    answer: Message


class Snapshot(NamedTuple):
    """The state of a loop at one moment."""

    frame: Frame
    history: list[Frame]
    """The frames until then, oldest first, without their rows."""
    reply: Reply | None
    """The last answer to the question that the user is interested in."""


class Sampler:
    """Asks `client` for a sample every `interval` seconds. A context manager that ends the thread.

    Thread: the caller's; attributes without underscore may be read in any.
    """

    def __init__(self, client: Client, interval: float) -> None:
        self.client = client
        self.interval = interval
        self.latest: Snapshot | None = None
        self.failure: LoopcoreError | None = None
        self.heard = time.monotonic()
        """When the latest answer came."""
        self.samples: list[Message] = []
        """The samples that the history comes from."""
        self.arrival = self._announce = -1
        """While it runs, the ends of a pipe that gets a byte with each snapshot, the failure, and by `announce`."""
        self._question: Question | None = None
        self._reply: Reply | None = None
        self._due = 0.0
        self._hurry = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> "Sampler":
        self.arrival, self._announce = os.pipe()
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ending = True
        self._hurry.set()
        self._thread.join(0.5)  # do not wait for a process that does not answer
        if not self._thread.is_alive():
            os.close(self.arrival)
            os.close(self._announce)

    def ask(self, question: Question | None) -> None:
        """Ask this from now on, too, and at once."""
        if question != self._question:
            self._question = question
            self.hurry()

    def hurry(self) -> None:
        """Ask the question again, now."""
        self._due = 0.0
        self._hurry.set()

    def announce(self) -> None:
        """Write a byte to `arrival`, so that its reader wakes up. May be called by a signal handler."""
        os.write(self._announce, b"\0")

    def clear(self) -> None:
        """Read from `arrival` what is there."""
        os.read(self.arrival, 64)

    def _run(self) -> None:
        try:
            self._take(first_sample(self.client))
            due = time.monotonic() + min(self.interval, _SOON)
            while not self._ending:
                self.announce()
                hurried = self._hurry.wait(max(due - time.monotonic(), 0.0))
                self._hurry.clear()
                if self._ending:
                    break
                self._ask_question()
                if hurried and self.latest is not None:
                    self.latest = self.latest._replace(reply=self._reply)
                else:
                    due = time.monotonic() + self.interval
                    self._take(self.client.ask("sample"))
        except LoopcoreError as exc:
            self.failure = exc
            self.announce()

    def _take(self, sample: Message) -> None:
        self.heard = time.monotonic()
        frame = compare(self.samples[-1] if self.samples else sample, sample)
        history: list[Frame] = []
        if self.latest is not None:
            history = [*self.latest.history[1 - KEPT :], frame.without_rows()]
        self.samples = [*self.samples[1 - _SAMPLES :], sample]
        self.latest = Snapshot(frame, history, self._reply)

    def _ask_question(self) -> None:
        question, began = self._question, time.monotonic()
        if question is None:
            self._reply = None
            return
        if self._reply is not None and self._reply.question == question and began < self._due:
            return
        arguments: dict[str, Any] = {} if question.task is None else {"task": question.task}
        try:
            answer: Message = self.client.ask(question.ask, **arguments)
        except UsageError as exc:  # the task has ended
            answer = {"error": str(exc)}
        self._reply = Reply(question, answer)
        self._due = time.monotonic() + (time.monotonic() - began) * (1 - _SHARE) / _SHARE


def sites_of(client: Client) -> list[Message]:
    """Return the tasks by await site; none if the process, whose loopcore may be older, cannot tell."""
    try:
        sites: list[Message] = client.ask("sites")["sites"]
    except LoopcoreError:
        return []
    return sites


def watch(client: Client, *parts: str) -> None:
    """Have `parts` measured; those that the process does not know, because its loopcore is older, are left out."""
    known = client.greeting.get("parts", (METER, CALLBACKS, PHASES))
    client.ask("watch", parts=[part for part in parts if part in known])


def first_sample(client: Client) -> Message:
    """Return the first sample with the meter on, or any if the loop is stalled for longer."""
    end = time.monotonic() + _FIRST
    while True:
        sample: Message = client.ask("sample")
        if sample["meter"] is not None or time.monotonic() > end:
            return sample
        time.sleep(0.02)
