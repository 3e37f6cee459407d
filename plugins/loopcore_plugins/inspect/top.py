"""top: the terminal program. A thread asks for samples, so that keys work whatever the process does."""

import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from rich.console import Console, RenderableType
from rich.screen import Screen

from loopcore.errors import UsageError
from loopcore.text import printable
from loopcore_plugins.inspect.client import Client, GoneError, connect
from loopcore_plugins.inspect.columns import TABS, visible
from loopcore_plugins.inspect.figures import Event, Row, compare
from loopcore_plugins.inspect.keyboard import keyboard, read_keys
from loopcore_plugins.inspect.listing import shorten, whereabouts
from loopcore_plugins.inspect.observer import AGES, CALLBACKS, METER
from loopcore_plugins.inspect.places import Address
from loopcore_plugins.inspect.protocol import Message
from loopcore_plugins.inspect.sampler import Question, Sampler, Snapshot, first_sample, watch
from loopcore_plugins.inspect.screen import View, draw

SILENCE: Final = 2.0
"""Seconds without an answer, in addition to the interval, after which a notice is shown."""
_ONCE_LINES: Final = 40
"""Height of a frame that is not printed to a terminal."""
_PAGE: Final = 10
_MOVES: Final = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -_PAGE, "page down": _PAGE}


def run_top(address: Address, *, interval: float, light: bool, once: bool) -> int:
    """Show the loop at `address` until the user quits or the process ends. Raises LoopcoreError."""
    console = Console(highlight=False)
    if not once and not (console.is_terminal and sys.stdin.isatty()):
        raise UsageError("`loopcore top` needs a terminal; --once prints one frame, --page shows it in a browser")
    with connect(address) as client:
        watch(client, *([METER] if light else [METER, CALLBACKS, AGES]))
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
    earlier = first_sample(client)
    time.sleep(interval)
    frame = compare(earlier, client.ask("sample"))
    height = console.height - 1 if console.is_terminal else _ONCE_LINES
    snapshot = Snapshot(frame, [frame], None)
    console.print(draw(client.greeting, snapshot, View(), (console.width, height), fills=False))


def _show(console: Console, screen: RenderableType) -> None:
    """Write a frame at once, between the marks of a synchronized update: it does not flicker."""
    with console.capture() as captured:
        console.print(Screen(screen), end="")
    console.file.write(f"\x1b[?2026h\x1b[H{captured.get()}\x1b[?2026l")
    console.file.flush()


@contextmanager
def _resizing(sampler: Sampler) -> Iterator[None]:
    """Draw a new frame as soon as the terminal has another size."""
    before = signal.signal(signal.SIGWINCH, lambda *_: sampler.announce())
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before or signal.SIG_DFL)  # None: it was set by C code


class Top:
    """The screen and its keys."""

    def __init__(self, console: Console, sampler: Sampler, address: Address) -> None:
        self._console = console
        self._sampler = sampler
        self._address = address
        self._view = View()
        self._shown: Snapshot | None = None
        self._asked: Question | None = None
        self._asking = ""
        """The id of the task whose cancellation is to be confirmed."""
        self._done = False

    def run(self) -> None:
        """Draw and handle keys until the end."""
        sampler = self._sampler
        with keyboard() as keys, self._console.screen(), _resizing(sampler):
            while not self._done and sampler.failure is None:
                self._draw()
                ready, _, _ = select.select([keys, sampler.arrival], [], [], sampler.interval)
                if sampler.arrival in ready:
                    sampler.clear()
                    self._take()
                if keys in ready:
                    pressed = read_keys(keys)
                    self._done = not pressed
                    for key in pressed:
                        self._obey(key)

    def _draw(self) -> None:
        silent = time.monotonic() - self._sampler.heard
        if not self._asking and silent > self._sampler.interval + SILENCE:
            self._view.notice = f"no answer for {silent:.0f} s: stopped, or in C code that holds the GIL"
        if self._shown is not None:
            size = self._console.size  # read once: the terminal may be resized at any time
            _show(self._console, draw(self._sampler.client.greeting, self._shown, self._view, size))

    def _take(self) -> None:
        """Take over the latest snapshot; while the screen is frozen, only the answer to another question."""
        latest, shown = self._sampler.latest, self._shown
        if latest is None or self._sampler.failure is not None:
            return
        if self._view.frozen and shown is not None:
            if (latest.reply and latest.reply.question) != (shown.reply and shown.reply.question):
                self._shown = shown._replace(reply=latest.reply)
        else:
            self._shown = latest
        reply = latest.reply if latest.reply is not None and latest.reply.question == self._asked else None
        error = "" if reply is None else str(reply.answer.get("error", ""))
        if reply is not None and reply.question.ask == "task":
            if error:
                error = "the task has ended; this is what was last seen of it"
            else:
                self._view.detail = reply.answer
        if isinstance(self._view.detail, Event):  # a stall goes on
            when = self._view.detail.when
            self._view.detail = next((each for each in latest.frame.events if each.when == when), self._view.detail)
        if not self._asking and time.monotonic() - self._sampler.heard < self._sampler.interval + SILENCE:
            self._view.notice = error

    def _ask(self, question: Question | None = None) -> None:
        """Ask `question`, or for the rows of the table."""
        asks = self._view.tab.asks
        self._asked = question or (Question(asks) if asks else None)
        self._sampler.ask(self._asked)

    def _obey(self, key: str) -> None:
        view = self._view
        if self._asking:
            self._confirm(key)
        elif view.typing:
            self._type(key)
        elif key in ("q", "Q"):
            self._done = True
        elif key == "?":
            view.help, view.scrolled = not view.help, 0
        elif key == "escape":
            self._go_back()
        elif key in _MOVES:
            self._move(_MOVES[key])
        elif key == " ":
            view.frozen = not view.frozen
            self._take()
        elif key == "c":
            self._ask_to_cancel()
        elif view.help or view.detail is not None:
            pass
        elif key == "r":
            view.reverse = not view.reverse
        elif key == "s":
            titles = [column.title for column in visible(view.tab.columns, self._console.width)]
            now = view.sorting[view.tab.title]
            place = titles.index(now) if now in titles else 0
            view.sorting[view.tab.title] = titles[(place + 1) % len(titles)]
        elif key == "tab":
            self._turn_to((TABS.index(view.tab) + 1) % len(TABS))
        elif key in "1234":
            self._turn_to(int(key) - 1)
        elif key == "/":
            view.typing, view.selected = True, ""
        elif key == "enter":
            self._open()

    def _turn_to(self, tab: int) -> None:
        self._view.tab = TABS[tab]
        self._view.selected = ""
        self._view.reverse = False
        self._ask()

    def _type(self, key: str) -> None:
        view = self._view
        if key in ("enter", "escape"):
            view.typing = False
            if key == "escape":
                view.filter = ""
        elif key == "backspace":
            view.filter = view.filter[:-1]
        elif len(key) == 1:
            view.filter += key

    def _go_back(self) -> None:
        view = self._view
        if view.help:
            view.help = False
        elif view.detail is not None:
            view.detail = None
            self._ask()
        else:
            view.filter = view.selected = ""

    def _rows(self) -> list[Any]:
        return [] if self._shown is None else self._view.rows(self._shown)

    def _chosen(self) -> Any:
        """Return the selected row; None if there is none."""
        return next((row for row in self._rows() if self._view.tab.identity(row) == self._view.selected), None)

    def _move(self, by: int) -> None:
        view = self._view
        if view.help or view.detail is not None:
            view.scrolled = max(view.scrolled + by, 0)
            return
        places = [view.tab.identity(row) for row in self._rows()]
        if places:
            now = places.index(view.selected) if view.selected in places else -1 if by > 0 else 0
            view.selected = places[min(max(now + by, 0), len(places) - 1)]

    def _open(self) -> None:
        """Show the selected row in full, or the tasks that belong to it."""
        view, row = self._view, self._chosen()
        if row is None:
            view.notice = "select a row first, with the arrows"
        elif isinstance(row, Event):
            view.detail, view.scrolled = row, 0
        elif view.tab.asks == "ps":
            view.detail, view.scrolled = {**row, "awaiters": [], "history": None}, 0
            self._ask(Question("task", row["id"]))
        elif isinstance(row, Row) and row.kind != "task":
            view.notice = "a callback has no tasks"
        else:
            wanted = row.name if isinstance(row, Row) else whereabouts(row["example"])
            self._turn_to(2)
            view.filter = wanted

    def _ask_to_cancel(self) -> None:
        view = self._view
        task: Message | None = view.detail if isinstance(view.detail, dict) else None
        if task is None and view.tab.asks == "ps":
            task = self._chosen()
        if task is None or "id" not in task:
            view.notice = "select a task first, with the arrows" if view.tab.asks == "ps" else "press 3 for the tasks"
            return
        self._asking = str(task["id"])
        view.notice = f"cancel {shorten(task['name'])}? press y or n"

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
