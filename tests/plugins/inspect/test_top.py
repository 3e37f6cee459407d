"""loopcore top, in a terminal."""

import os
import re
import signal
import sys
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("rich")
pytest.importorskip("termios")

from rich.console import Console

from loopcore.errors import UsageError
from loopcore_plugins.inspect import commands
from loopcore_plugins.inspect.columns import TABS, count_of, share_of, size_of, time_of
from loopcore_plugins.inspect.detail import event_lines
from loopcore_plugins.inspect.figures import Event
from loopcore_plugins.inspect.screen import View, _footer, _table
from loopcore_plugins.inspect.top import _resizing
from tests.plugins.inspect.processes import SERVER, loopcore, running, server_file
from tests.plugins.inspect.terminal import Terminal, save_picture

pytestmark = pytest.mark.loopcore_only


def test_a_handler_of_resizing_that_c_code_has_set_becomes_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """`signal.signal` returns None for it."""
    set_handler = signal.signal
    before = set_handler(signal.SIGWINCH, signal.SIG_IGN)

    def set_over_c(number: int, handler: Any) -> Any:
        replaced = set_handler(number, handler)
        return None if replaced is signal.SIG_IGN else replaced

    monkeypatch.setattr(signal, "signal", set_over_c)
    try:
        with _resizing(Mock()):
            pass
        assert signal.getsignal(signal.SIGWINCH) is signal.SIG_DFL
    finally:
        set_handler(signal.SIGWINCH, before)


def has(*texts: str):  # type: ignore[no-untyped-def]
    return lambda lines: all(any(text in line for line in lines) for text in texts)


def test_it_shows_live_figures_and_ends_when_it_is_told(folder: Path, backend_name: str) -> None:
    with running(folder, SERVER, backend=backend_name) as process, Terminal(str(process.pid)) as terminal:
        lines = terminal.wait_for(lambda lines: any(re.match(r" client +3 +[\d.,]+ ", line) for line in lines))
        assert has("utilization", "delay p99", "connections  6 open", "run queue", "GIL wait")(lines)
        assert len(lines) == 24
        assert {len(line) for line in lines if line} == {80}
        assert backend_name in lines[0]
        terminal.press("q")
        assert terminal.process.wait(30) == 0


def test_keys_sort_reverse_and_freeze(folder: Path) -> None:
    with running(folder, SERVER) as process, Terminal(str(process.pid), columns=100) as terminal:
        terminal.wait_for(has("BUSY▼"))
        terminal.press("s")
        terminal.wait_for(has("MEAN▼"))
        terminal.press("r")
        terminal.wait_for(has("MEAN▲"))
        terminal.press("r\x1b[B\x1bOP")
        terminal.wait_for(has("MEAN▼"))
        terminal.press(" ")
        frozen = terminal.wait_for(has("FROZEN"))
        terminal.press("s")
        again = terminal.wait_for(has("FROZEN", "LONGEST▼"))
        assert frozen[1:8] == again[1:8]
        terminal.press(" ")
        terminal.wait_for(lambda lines: not has("FROZEN")(lines))
        terminal.press("q")
        assert terminal.process.wait(30) == 0


def test_the_help_explains_keys_and_figures(folder: Path) -> None:
    with running(folder, SERVER) as process, Terminal(str(process.pid), rows=40) as terminal:
        terminal.wait_for(has(" client "))
        terminal.press("?")
        terminal.wait_for(has("cancel the selected task", "an estimate"))
        terminal.press("\x1b")
        terminal.wait_for(has(" client "))
        terminal.press("q")


def test_a_filter_leaves_the_rows_that_contain_it(folder: Path) -> None:
    with running(folder, SERVER) as process, Terminal(str(process.pid)) as terminal:
        terminal.wait_for(has(" client "))
        terminal.press("3")
        terminal.wait_for(has("client-0", "report"))
        terminal.press("/CLIENTX\x7f\r")
        lines = terminal.wait_for(has("filter: CLIENT ", "3 rows"))
        assert not has("report")(lines)
        terminal.press("\x1b")
        terminal.wait_for(has("client-0", "report"))
        terminal.press("q")


def test_a_site_leads_to_its_tasks_and_a_task_to_its_stack_and_history(folder: Path) -> None:
    with running(folder, SERVER, "recorder") as process, Terminal(str(process.pid)) as terminal:
        terminal.wait_for(has(" client "))
        terminal.press("2")
        lines = terminal.wait_for(lambda lines: any(re.match(r" <string>:\d+ query +2 +≥ ", line) for line in lines))
        row = next(number for number, line in enumerate(lines) if " query " in line)
        heading = next(number for number, line in enumerate(lines) if "TASKS▼" in line)
        terminal.press("j" * (row - heading) + "\r")
        terminal.wait_for(has(" 3 tasks ", "filter: <string>:", "2 rows"))
        terminal.press("j\r")
        lines = terminal.wait_for(has("awaited by  report", "in query", "history"))
        assert any(re.match(r" +-12\.[5-9]\d+ s +woken +by client", line) for line in lines)
        terminal.press("\x1b")
        terminal.wait_for(has("2 rows"))
        terminal.press("q")


def test_a_task_is_selected_and_cancelled(folder: Path) -> None:
    with running(folder, SERVER) as process, Terminal(str(process.pid)) as terminal:
        terminal.wait_for(has(" client "))
        terminal.press("c")
        terminal.wait_for(has("press 3 for the tasks"))
        terminal.press("3")
        terminal.wait_for(has("TASK▲", "client-0", "client-1"))
        terminal.press("c")
        terminal.wait_for(has("select a task first"))
        terminal.press("\x1b[Bc")
        terminal.wait_for(has("cancel client-0? press y or n"))
        terminal.press("n")
        terminal.wait_for(has("client-0", "space freeze"))
        terminal.press("cy")
        terminal.wait_for(lambda lines: has("client-1")(lines) and not has("client-0")(lines))
        terminal.press("q")


def test_a_stall_is_shown_while_it_lasts(folder: Path) -> None:
    with running(folder, SERVER, "blocking") as process, Terminal(str(process.pid)) as terminal:
        lines = terminal.wait_for(has("STALLED for"))
        assert "(blocked)" in lines[1]
        assert "task blocker" in lines[1]
        terminal.wait_for(has("last stall (blocked): blocker"))
        terminal.press("4")
        terminal.wait_for(lambda lines: any(re.search(r":26, in blocker +blocker +blocked", line) for line in lines))
        terminal.press("j\r")
        terminal.wait_for(has("a callback waits in a blocking call", 'File "<string>", line 26, in blocker'))
        terminal.press("q")


@pytest.mark.parametrize(("columns", "rows"), [(40, 16), (26, 12), (200, 50)])
def test_every_size_is_filled_and_not_exceeded(folder: Path, columns: int, rows: int) -> None:
    with running(folder, SERVER) as process, Terminal(str(process.pid)) as terminal:
        terminal.wait_for(has(" client "))
        terminal.resize(columns, rows)
        # A screen that was being drawn may have the size from before, or some of each.
        lines = terminal.wait_for(lambda lines: (len(lines[0]), len(lines)) == (columns, rows))
        assert max(map(len, lines)) == columns
        assert any(line.startswith(" COR") for line in lines)
        terminal.press("q")


def test_it_ends_with_the_process(folder: Path) -> None:
    with running(folder, SERVER) as process, Terminal(str(process.pid)) as terminal:
        terminal.wait_for(has(" client "))
        process.kill()
        assert f"{process.pid}.1 has ended" in terminal.rest()
        assert terminal.process.wait(30) == 0


def test_a_process_that_does_not_answer_keeps_nobody(folder: Path) -> None:
    with running(folder, SERVER) as process, Terminal(str(process.pid)) as terminal:
        terminal.wait_for(has(" client "))
        process.send_signal(signal.SIGSTOP)
        terminal.wait_for(has("no answer for"))
        terminal.press("q")
        assert terminal.process.wait(30) == 0


def test_one_frame_is_printed_where_there_is_no_terminal(folder: Path) -> None:
    with running(folder, SERVER) as process:
        full = loopcore("top", str(process.pid), "--once", "--interval", "0.3")
        light = loopcore("top", "--once", "--light", "--interval", "0.3")
        refused = loopcore("top", str(process.pid))
    assert (full.returncode, full.stderr) == (0, "")
    assert "\x1b" not in full.stdout
    assert re.search(r"^ client +3 +[\d.,]+ ", full.stdout, re.MULTILINE)
    assert re.search(r"^ client +3 +- ", light.stdout, re.MULTILINE)
    assert refused.returncode == 2
    assert "needs a terminal" in refused.stderr


def test_without_rich_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("rich", "loopcore_plugins.inspect.top"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(UsageError, match=r"loopcore\[cli\]"):
        commands._find_top()


def a_task(**values: object) -> dict[str, object]:
    plain = {"id": 1, "name": "worker", "state": "waiting", "age": 1.0, "coroutine": "work", "waits_for": "sleep"}
    return {**plain, "stack": [["/srv/app.py", 3, "work"]], **values}


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("long", ["name", "coroutine", "waits_for"])
def test_a_long_name_in_one_column_leaves_the_others_their_room(width: int, long: str) -> None:
    """Issue 32: the names of all tasks vanished."""
    tasks = [a_task(), a_task(id=2, **{long: "n" * 1000})]
    view = View(tab=TABS[2])
    out = StringIO()
    Console(width=width, file=out).print(_table(tasks, view, width, 2))
    heading, first, second = out.getvalue().splitlines()
    assert heading.split()[:2] == ["TASK▲", "STATE"]
    assert first.split() == [
        "worker",
        "waiting",
        *["1.0s"] * (width >= 90),
        "work",
        *["sleep"] * (width >= 70),
        "app.py:3",
    ]
    assert ("…" in second) or (long == "waits_for" and width < 70)
    assert max(map(len, (heading, first, second))) <= width


def test_a_name_on_the_screen_is_no_command_to_the_terminal() -> None:
    odd = "re\x1b[2J\u202eport"
    task = a_task(name=odd, coroutine=odd, waits_for=odd, stack=[[f"/srv/{odd}.py", 3, odd]])
    view = View(tab=TABS[2], notice=odd)
    out = StringIO()
    console = Console(width=200, file=out)
    console.print(_table([task], view, 200, 1), _footer(view, "1 row", 200))
    assert out.getvalue().replace("\n", "").isprintable()
    assert out.getvalue().count(r"re\x1b[2J\u202eport") == 5


def test_figures_are_short() -> None:
    assert [count_of(each) for each in (0, 0.25, 12.6, 12345, 123456, 12_345_678)] == [
        "0", "0.2", "13", "12,345", "123k", "12M",
    ]  # fmt: skip
    assert [time_of(each) for each in (0, 12.3e-6, 1.234e-3, 0.123, 2.5)] == [
        "-",
        "12 µs",
        "1.23 ms",
        "123 ms",
        "2.50 s",
    ]
    assert [size_of(each) for each in (0, 999, 1500, 2.5e6, 3e9)] == ["0 B", "999 B", "1.5 kB", "2.5 MB", "3.0 GB"]
    assert [share_of(each) for each in (0, 0.012, 0.5)] == ["0 %", "1.2 %", "50 %"]


def test_without_colours_it_says_the_same(folder: Path) -> None:
    with running(folder, SERVER) as process, Terminal(str(process.pid), NO_COLOR="1") as terminal:
        terminal.wait_for(has(" client ", "utilization"))
        colours = re.findall(rb"\x1b\[(?:\d+;)*(?:3|4|9|10)\d[;m]", terminal.frame)
        assert not colours
        terminal.press("q")


def test_a_frame_of_the_new_size_is_drawn_at_once(folder: Path) -> None:
    with running(folder, SERVER) as process, Terminal(str(process.pid), interval=3600) as terminal:
        terminal.wait_for(has("client"))
        terminal.resize(90, 30)
        terminal.process.send_signal(signal.SIGWINCH)  # the kernel does so where it is the controlling terminal
        terminal.wait_for(lambda lines: (len(lines), len(lines[0])) == (30, 90))
        terminal.press("q")
        assert terminal.process.wait(30) == 0


def test_pictures_for_the_manual(folder: Path, tmp_path: Path) -> None:
    kept = os.environ.get("LOOPCORE_SCREENSHOTS")
    pictures = Path(kept or tmp_path)
    frames, interval = (45, 0.5) if kept else (5, 0.2)
    program = server_file(tmp_path)
    with (
        running(folder, program.relative_to(tmp_path), "blocking", cwd=tmp_path) as process,
        Terminal(str(process.pid), columns=100, rows=28, interval=interval) as terminal,
    ):
        terminal.wait_for(lambda lines: re.search(f"[▁▂▃▄▅▆▇█]{{{frames}}}", lines[2]))
        terminal.wait_for(lambda lines: has("STALLED for")(lines) and not has(" highest - ")(lines))
        save_picture(terminal.frame, pictures / "inspect-top.svg", size=(100, 28))
        terminal.press("2")
        terminal.wait_for(has("TASKS▼", " query "))
        save_picture(terminal.frame, pictures / "inspect-sites.svg", size=(100, 28))
        terminal.press("q")
    for name, text in (("inspect-top", "utilization"), ("inspect-sites", "OLDEST")):
        picture = (pictures / f"{name}.svg").read_text(encoding="utf-8")
        assert text in picture
        assert "url(http" not in picture.replace('"', "")


def test_a_stall_is_told_in_full() -> None:
    stall = {
        "when": 1.0,
        "seconds": 0.5,
        "cpu_seconds": 0.25,
        "cause": "gil",
        "place": ["/srv/app.py", 3, "work"],
        "stack": [["/srv/app.py", 3, "work"]],
        "task": "worker",
        "awaited_by": ["main", "re\x1bport"],
        "request": {"trace_id": "00ff"},
        "holder": {"thread": "spinner", "place": ["/srv/spin.py", 7, "spin"], "cpu_seconds": 0.4},
    }
    told = "\n".join(line.plain for line in event_lines(Event(1.0, 0.5, "gil", "/srv/app.py:3", "worker", stall)))
    for text in (
        "gil: another thread held the GIL",
        "thread spinner at /srv/spin.py:7, in spin; 400 ms of CPU",
        "trace_id 00ff",
        r"main, re\x1bport",
        'File "/srv/app.py", line 3, in work',
    ):
        assert text in told
    older = event_lines(Event(1.0, 0.5, "slow", "", "work", None))
    assert [line.plain.split()[0] for line in older if line.plain.strip()] == ["when", "for", "cause", "task", "at"]
