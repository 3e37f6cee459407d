"""The page of loopcore top --html."""

import json
import re
from pathlib import Path

import pytest

from loopcore_plugins.inspect.figures import Event, Row, compare
from loopcore_plugins.inspect.observer import PARTS
from loopcore_plugins.inspect.page.contents import _event, _row, describe, make_page
from loopcore_plugins.inspect.page.recording import recorded
from tests.plugins import browser
from tests.plugins.inspect.processes import SERVER, client_of, loopcore, running, server_file

SECONDS = 2.0
"""How long is recorded: some stalls of the program."""
PROGRAM = "server.py </script><b>"

MEASURED = """<!doctype html><body><script>
const frame = document.createElement("iframe");
frame.style.width = "390px";
frame.style.height = "800px";
frame.src = "page.html";
frame.onload = () => {
  const inner = frame.contentDocument, root = inner.documentElement;
  const colour = frame.contentWindow.getComputedStyle(inner.body).backgroundColor;
  document.body.append(`width ${root.scrollWidth} of ${root.clientWidth}, page ${colour}`);
};
document.body.append(frame);
</script>"""
"""A page that shows the page in a frame as wide as a phone, and writes what it measures."""


@pytest.fixture
def page(folder: Path, tmp_path: Path) -> Path:
    """The page of a real run, with a stall in it."""
    with running(folder, server_file(tmp_path), "blocking") as process, client_of(process) as client:
        client.ask("watch", parts=sorted(PARTS))
        client.greeting["program"] = PROGRAM
        text = recorded(client, SECONDS)
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_page_stands_alone(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|href|style)=|@import|url\(", text)
    assert "unsafe" not in text
    assert text.count("</script>") == 2
    figures = json.loads(text.partition('id="figures">')[2].partition("</script>")[0])
    assert figures["title"].startswith(PROGRAM)
    series = [figures[name] for name in ("utilization", "delay50", "delay99", "tick99", "callbacks", "received")]
    assert {len(each) for each in series} == {len(figures["times"])}
    assert figures["times"] == sorted(figures["times"])
    assert any(row["name"] == "blocker" and row["longest"] >= 0.3 for row in figures["slowest"])
    # Beside other programs a stall of it may be one for want of a processor.
    assert ("blocker", "blocked") in {(event["task"], event["cause"]) for event in figures["events"]}
    assert {site["count"] for site in figures["sites"] if site["place"].endswith("in query")} == {2}
    assert all(0.0 <= value <= 1.0 for values in figures["phases"].values() for value in values)


def test_names_on_the_page_are_printable_and_not_without_end() -> None:
    """Issue 32."""
    shown = _event(Event(1.0, 2.0, "busy", "/srv/\u202eapp.py:3, in m\x1bain", "t" * 10**6, None), 0.0)
    assert shown["place"] == r"/srv/\u202eapp.py:3, in m\x1bain"
    assert len(shown["task"]) <= 300
    row = _row(Row("task", "na\nme", 1, 1.0, 0.5, 0.1, 0.2, "/srv/app\u2028.py:1"))
    assert (row["name"], row["place"]) == (r"na\nme", r"/srv/app\u2028.py:1")


def test_the_command_writes_it(folder: Path, tmp_path: Path) -> None:
    with running(folder, SERVER) as process:
        done = loopcore("top", str(process.pid), "--html", str(tmp_path / "page.html"), "--seconds", "0.5")
    assert (done.returncode, done.stderr) == (0, "")
    assert "<!doctype html>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_place_is_looked_at_before_the_recording(folder: Path, tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with running(folder, SERVER) as process:
        for path, why in ((absent / "page.html", f"there is no folder '{absent}'"), (tmp_path, "it is a folder")):
            refused = loopcore("top", str(process.pid), "--html", str(path), "--seconds", "86400")
            assert refused.returncode == 2
            assert f"cannot write '{path}': {why}" in refused.stderr


def test_a_loop_of_which_nothing_was_measured_has_a_page(folder: Path) -> None:
    with running(folder, SERVER) as process, client_of(process) as client:
        frame = compare(client.ask("sample"), client.ask("sample"))
        text = make_page(describe(client.greeting, [frame], frame, []))
    assert '"utilization":[null]' in text


@pytest.mark.browser
def test_a_browser_draws_the_charts(page: Path) -> None:
    document = browser.read_document(page.as_uri())
    body = document.partition("<main")[2].partition("<script")[0]
    titles = re.findall(r'aria-label="([^"]+)"', body)
    assert [title for title in titles if title != "Wait for the GIL"] == [  # that is 0 where no other thread runs
        "Summary", "Utilization over time", "Queue delay over time", "Time of the thread", "Callbacks a second",
        "Bytes a second", "Slowest callbacks", "Time by phase", "Distribution of the queue delay by source",
    ]  # fmt: skip
    assert body.count("<polyline") >= 6
    assert body.count("<polygon") >= 2
    assert 'class="band"' in body
    assert "NaN" not in body
    assert "blocker" in body
    assert "server.py &lt;/script&gt;&lt;b&gt;" in document


@pytest.mark.browser
def test_phases_of_an_idle_program_are_drawn(folder: Path, tmp_path: Path) -> None:
    with running(folder, SERVER) as process, client_of(process) as client:
        earlier, later = ({**client.ask("sample"), "phases": phases} for phases in (
            {"poll": [0, 0], "pending": [0, 0], "close": [0, 0]},
            {"poll": [10**9, 1], "pending": [10**5, 1], "close": [10, 1]},
        ))  # fmt: skip
        frame = compare(earlier, later)
        text = make_page(describe(client.greeting, [frame], frame, []))
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    phases = browser.read_document(path.as_uri()).partition("<h2>Phases")[2].partition("</section>")[0]
    assert 'aria-label="Time by phase"' in phases
    assert phases.count("<polygon") == 1  # `close` is negligible, even here


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_both_colour_schemes(page: Path, scheme: str) -> None:
    (page.parent / "phone.html").write_text(MEASURED, encoding="utf-8")
    with browser.served(page.parent) as address:
        setting = f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"
        document = browser.open_page(f"{address}/phone.html", "--dump-dom", setting)
    measured = re.search(r"width (\d+) of (\d+), page rgb\((\d+), \d+, \d+\)", document)
    assert measured is not None
    assert measured[1] == measured[2]
    assert (int(measured[3]) < 128) == (scheme == "dark")


CLICKED = """<!doctype html><body><script>
const frame = document.createElement("iframe");
frame.style.width = "1000px";
frame.src = "page.html";
frame.onload = () => {
  const inner = frame.contentDocument, find = (text) => inner.evaluate(text, inner, null, 9, null).singleNodeValue;
  const sites = () => find("//section[h2='Tasks by await site']");
  const rows = () => [...sites().querySelectorAll("tbody tr")].map((row) => row.children[1].textContent).join();
  const told = [rows()];
  find("//section[h2='Tasks by await site']//th[2]/button").click();
  told.push(rows());
  find("//section[h2='Tasks by await site']//th[2]/button").click();
  told.push(rows());
  const filter = inner.querySelector("#filter");
  filter.value = "IN QUERY";
  filter.dispatchEvent(new Event("input"));
  told.push(rows());
  const details = sites().querySelector("details");
  details.addEventListener("toggle", () => {
    filter.value = "in q";
    filter.dispatchEvent(new Event("input"));
    told.push(sites().querySelector("details[open] pre").textContent);
    document.body.append(told.join("|"));
  });
  details.open = true;
};
document.body.append(frame);
</script>"""
"""A page that sorts, filters and opens a row of the page in a frame, and writes what is shown each time."""


@pytest.mark.browser
def test_its_tables_are_sorted_and_filtered_and_opened_rows_stay_open(page: Path) -> None:
    (page.parent / "clicks.html").write_text(CLICKED, encoding="utf-8")
    with browser.served(page.parent) as address:
        document = browser.open_page(f"{address}/clicks.html", "--dump-dom")
    told = document.partition("</iframe>")[2].partition("</body>")[0].split("|")
    assert len(told) == 5, told
    counts = sorted(map(int, told[0].split(",")))
    assert told[1] == ",".join(map(str, reversed(counts)))
    assert told[2] == ",".join(map(str, counts))
    assert told[3] == "2"
    assert "(query)" in told[4]
    assert ", in query" in told[4]
