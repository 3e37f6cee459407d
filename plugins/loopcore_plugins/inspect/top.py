"""top: the terminal program. A thread asks for samples, so that keys work whatever the process does."""

import os
import select
import sys
import threading
import time
from typing import Any, Final

from rich.console import Console
from rich.live import Live

from loopcore.errors import LoopcoreError, UsageError
from loopcore.text import printable
from loopcore_plugins.inspect.client import Client, GoneError, connect
from loopcore_plugins.inspect.columns import identity_of, visible
from loopcore_plugins.inspect.figures import Frame, compare
from loopcore_plugins.inspect.keyboard import keyboard, read_keys
from loopcore_plugins.inspect.listing import shorten
from loopcore_plugins.inspect.observer import CALLBACKS, METER
from loopcore_plugins.inspect.places import Address
from loopcore_plugins.inspect.protocol import Message
from loopcore_plugins.inspect.screen import View, draw

SILENCE: Final = 2.0
"""Seconds without an answer, in addition to the interval, after which a notice is shown."""
_ONCE_LINES: Final = 40
"""Height of a frame that is not printed to a terminal."""
_PAGE: Final = 10


def run_top(address: Address, *, interval: float, light: bool, once: bool) -> int:
    """Show the loop at `address` until the user quits or the process ends. Raises LoopcoreError."""
    console = Console(highlight=False)
    if not once and not (console.is_terminal and sys.stdin.isatty()):
        raise UsageError("`loopcore top` needs a terminal; --once prints one frame, --html FILE writes a page")
    with connect(address) as client:
        client.ask("watch", parts=[METER] if light else [METER, CALLBACKS])
        if once:
            _print_once(console, client, interval)
            return 0
        with Sampler(client, interval) as sampler:
            try:
                Top(console, sampler, address).run()
            except KeyboardInterrupt:
                pass
    if sampler.failure is not None:
        console.print(printable(sampler.failure), markup=False, emoji=False)
    return 0


def _print_once(console: Console, client: Client, interval: float) -> None:
    view = View()
    earlier = _first_sample(client)
    time.sleep(interval)
    frame = compare(earlier, client.ask("sample"))
    view.remember(frame)
    height = console.height - 1 if console.is_terminal else _ONCE_LINES
    console.print(draw(client.greeting, frame, [], view, (console.width, height), fills=False))


def _first_sample(client: Client) -> Message:
    """Return the first sample with the meter on: the loop turns it on itself, unless it is stalled."""
    end = time.monotonic() + 1.0
    while True:
        sample: Message = client.ask("sample")
        if sample["meter"] is not None or time.monotonic() > end:
            return sample
        time.sleep(0.02)


class Sampler:
    """Asks for a sample every `interval` seconds, in a thread, and for the tasks while they are shown."""

    def __init__(self, client: Client, interval: float) -> None:
        self.client = client
        self.interval = interval
        self.latest: tuple[Message, list[Message]] | None = None
        """A sample, and the tasks if they were asked for."""
        self.failure: LoopcoreError | None = None
        self.wants_tasks = False
        self.arrival, self._announce = os.pipe()
        """The pipe gets a byte with each sample, and with the failure."""
        self._hurry = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ending = True
        self._hurry.set()
        self._thread.join(0.5)  # do not wait for a process that does not answer
        if not self._thread.is_alive():
            os.close(self.arrival)
            os.close(self._announce)

    def hurry(self) -> None:
        """Take a sample now."""
        self._hurry.set()

    def _run(self) -> None:
        try:
            self.latest = _first_sample(self.client), []
            while not self._ending:
                os.write(self._announce, b"\0")
                self._hurry.wait(self.interval)
                self._hurry.clear()
                tasks = self.client.ask("ps")["tasks"] if self.wants_tasks else []
                self.latest = self.client.ask("sample"), tasks
        except LoopcoreError as exc:
            self.failure = exc
            os.write(self._announce, b"\0")


class Top:
    """The screen and its keys."""

    def __init__(self, console: Console, sampler: Sampler, address: Address) -> None:
        self._console = console
        self._sampler = sampler
        self._address = address
        self._view = View()
        self._sample: Message | None = None
        self._frame: Frame | None = None
        self._tasks: list[Message] = []
        self._heard = time.monotonic()
        self._asking = ""
        """The id of the task whose cancellation is to be confirmed."""
        self._done = False

    def run(self) -> None:
        """Draw and handle keys until the end."""
        with keyboard() as keys, Live(console=self._console, screen=True, auto_refresh=False) as live:
            while not self._done and self._sampler.failure is None:
                self._draw(live)
                ready, _, _ = select.select([keys, self._sampler.arrival], [], [], self._sampler.interval)
                if self._sampler.arrival in ready:
                    os.read(self._sampler.arrival, 1)
                    self._take()
                if keys in ready:
                    pressed = read_keys(keys)
                    self._done = not pressed
                    for key in pressed:
                        self._obey(key)

    def _draw(self, live: Live) -> None:
        silent = time.monotonic() - self._heard
        if not self._asking and silent > self._sampler.interval + SILENCE:
            self._view.notice = f"no answer for {silent:.0f} s: stopped, or in C code that holds the GIL"
        if self._frame is not None:
            size = self._console.size  # read once: the terminal may be resized at any time
            live.update(draw(self._sampler.client.greeting, self._frame, self._tasks, self._view, size), refresh=True)

    def _take(self) -> None:
        """Take over the latest sample."""
        latest = self._sampler.latest
        if latest is None or self._sampler.failure is not None:
            return
        self._heard = time.monotonic()
        sample, tasks = latest
        earlier, self._sample = self._sample or sample, sample
        if self._view.paused:
            return
        self._frame, self._tasks = compare(earlier, sample), tasks
        self._view.remember(self._frame)
        if not self._asking:
            self._view.notice = ""

    def _obey(self, key: str) -> None:
        view = self._view
        if self._asking:
            self._confirm(key)
        elif key in ("q", "Q", "escape"):
            self._done = True
        elif key == "p":
            view.paused = not view.paused
        elif key == "r":
            view.reverse = not view.reverse
        elif key == "s":
            titles = [column.title for column in visible(view.columns, self._console.width)]
            now = view.sorting[view.shows_tasks]
            place = titles.index(now) if now in titles else 0
            view.sorting[view.shows_tasks] = titles[(place + 1) % len(titles)]
        elif key == "t":
            view.shows_tasks = self._sampler.wants_tasks = not view.shows_tasks
            view.selected = ""
            self._sampler.hurry()
        elif key in ("up", "down", "k", "j", "page up", "page down"):
            self._move({"up": -1, "k": -1, "page up": -_PAGE, "page down": _PAGE}.get(key, 1))
        elif key == "c":
            self._ask_to_cancel()

    def _rows(self) -> list[Any]:
        return [] if self._frame is None else self._view.rows(self._frame, self._tasks)

    def _move(self, by: int) -> None:
        places = [identity_of(row) for row in self._rows()]
        if places:
            now = places.index(self._view.selected) if self._view.selected in places else -1 if by > 0 else 0
            self._view.selected = places[min(max(now + by, 0), len(places) - 1)]

    def _ask_to_cancel(self) -> None:
        if not self._view.shows_tasks:
            self._view.notice = "press t for the single tasks, select one, then c"
            return
        chosen = next((row for row in self._rows() if identity_of(row) == self._view.selected), None)
        if chosen is None:
            self._view.notice = "select a task first, with the arrows"
            return
        self._asking = self._view.selected
        self._view.notice = f"cancel {shorten(chosen['name'])}? press y or n"

    def _confirm(self, key: str) -> None:
        wanted, self._asking = int(self._asking), ""
        self._view.notice = "not cancelled"
        if key != "y":
            return
        try:
            with connect(self._address) as client:  # a second connection: the first may be waiting for a sample
                answer = client.ask("cancel", task=wanted)
            self._view.notice = f"{shorten(answer['name'])} is being cancelled"
        except (UsageError, GoneError) as exc:
            self._view.notice = str(exc)
        self._sampler.hurry()
