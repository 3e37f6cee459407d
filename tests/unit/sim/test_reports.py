"""The reports of a run: the failure in words, its sequence diagrams, its trace."""

import asyncio
import itertools
import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from loopcore.sim.log import LogEntry
from loopcore.sim.report.diagram import sequence_diagram
from loopcore.sim.report.failure import failure_text, in_words
from loopcore.sim.report.messages import Message, find_messages
from loopcore.sim.report.svg import sequence_svg
from loopcore.sim.report.trace import trace_events, write_trace
from loopcore.sim.tape import Choice
from loopcore_plugins.trace.reading import find_problems
from tests.unit.sim.logs import RACE, random_log

SVG = "{http://www.w3.org/2000/svg}"


def test_choices_that_differ_are_sentences():
    choices = [
        Choice("order of arrivals", 2, 0),
        Choice("arrival at client", 3, 1, ("the cancellation of GET foo", "the reply to GET foo", "a timer")),
        Choice("next", 3, 2, ("a", "b", "c")),
        Choice("GET bar is cancelled", 2, 1),
        Choice("delay of GET foo", 8, 3),
        Choice("fault: a crash, a pause", 3, 2),
        Choice("read: all, half, a byte", 3, 1),
    ]
    assert in_words(choices) == [
        "arrival at client: the reply to GET foo went before the cancellation of GET foo",
        "next: c went before a and b",
        "GET bar is cancelled",
        "delay of GET foo: 3, where asyncio has 0 and the most is 7",
        "fault: a pause",
        "read: half",
    ]


def failed(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_the_text_of_a_failure_has_the_error_the_choices_the_end_of_the_log_and_the_command():
    text = failure_text(
        failed(AssertionError("asked bar, got val-foo")),
        choices=["the reply was late"],
        log=RACE,
        replay="loopcore sim replay chat.py abc",
        entries=4,
    )
    assert re.sub(r"at .*test_reports.py:\d+", "at FILE", text) == (
        "AssertionError: asked bar, got val-foo\n"
        "  at FILE, in failed\n"
        "\n"
        "This choice differs from asyncio's order:\n"
        "  1. the reply was late\n"
        "\n"
        "The last 4 of 12 events, in seconds of simulated time:\n"
        "      0.030000  server  crash: power cut\n"
        "      0.040000  client  timer: retry\n"
        "      0.060000  server  restart\n"
        "      0.070000  client  timer: retry\n"
        "\n"
        "Run it again:\n"
        "  loopcore sim replay chat.py abc\n"
    )


def test_an_error_of_a_library_is_placed_in_the_program():
    with pytest.raises(asyncio.QueueEmpty) as caught:
        asyncio.Queue[int]().get_nowait()
    assert re.search(r"test_reports.py:\d+, in test_an_error_of_a_library", failure_text(caught.value))


def test_a_group_of_errors_shows_each_and_the_program_cannot_write_to_the_terminal():
    error = ExceptionGroup("two", [ValueError("\x1b[2J"), KeyError("k")])
    assert failure_text(error, choices=[]).splitlines() == [
        "ExceptionGroup: two (2 sub-exceptions)",
        r"    ValueError: \x1b[2J",
        "    KeyError: 'k'",
        "",
        "No choice differs from asyncio's order: the failure needs no special order of events.",
    ]


def test_the_diagram_of_a_race():
    assert sequence_diagram(RACE, width=80) == (
        "                           client                           server\n"
        "    0.000000                 * connect: port 6379             |\n"
        "    0.010000                 |----------- GET foo ----------->|\n"
        "                             |                                o (1) val-foo\n"
        "    0.012000                 * cancel: GET foo                |\n"
        "                             |----------- GET bar -----------x|\n"
        "    0.020000                 |<-------- (1) val-foo ----------|\n"
        "    0.022000                 * asked bar, got val-foo         |\n"
        "    0.030000                 |                                * crash: power cut\n"
        "    0.040000                 * timer: retry\n"
        "    0.060000                 |                                * restart\n"
        "    0.070000                 * timer: retry                   |\n"
    )


@pytest.mark.parametrize("hosts", [1, 2, 5, 20, 29, 40])
def test_a_diagram_keeps_its_width_and_shows_every_event(hosts: int):
    for seed in range(20):
        log = random_log(seed, hosts)
        lines = sequence_diagram(log).splitlines()
        assert max(map(len, lines if hosts <= 29 else lines[:-1])) <= 100
        if hosts > 20:
            continue
        text = "\n".join(lines)
        assert all(name in text for name in {entry.host for entry in log})
        merged = sum(message.arrivals == (message.begin + 1,) for message in find_messages(log))
        assert len([line for line in lines if re.match(r" +\d+\.\d{6} | {13}.*([*ox<>])", line)]) >= len(log) - merged


def test_hosts_that_do_not_fit_are_named():
    log = [LogEntry(0.0, f"n{number}", "note", "x") for number in range(10)] + [LogEntry(1.0, "n9", "note", "y")]
    *lines, last = sequence_diagram(log, width=40).splitlines()
    assert last == "Left out (1): n8"
    assert "n9" in "".join(lines)


def test_messages_are_joined_by_their_flow():
    log = [
        LogEntry(0.0, "b", "arrive", "its beginning is not in the log", "a", 7),
        LogEntry(0.0, "a", "send", "lost", "b", 1),
        LogEntry(0.0, "a", "send", "twice", "b", 2),
        LogEntry(1.0, "b", "arrive", "twice", "a", 2),
        LogEntry(2.0, "b", "arrive", "twice", "a", 2),
    ]
    assert find_messages(log) == [Message(1, ()), Message(2, (3, 4))]
    assert sequence_diagram(log).count("|<") == 3
    assert sequence_diagram(log).count("|x") == 1


def test_the_picture_is_one_accessible_file():
    text = sequence_svg(RACE, title="a <race> & a \x1b crash")
    root = ET.fromstring(text)
    assert root.get("role") == "img"
    assert root[0].tag == f"{SVG}title"
    assert root[0].text == root.get("aria-label") == r"a <race> & a \x1b crash"
    assert root.findtext(f"{SVG}desc") == (
        "12 events from 0.000000 s to 0.070000 s on the hosts client, server. 3 messages, 1 of them lost."
    )
    assert "prefers-color-scheme: dark" in text
    assert re.findall(r"https?://[^\"]*|@import|href", text) == ["http://www.w3.org/2000/svg"]


def test_arrows_lead_from_the_row_of_the_beginning_to_that_of_the_arrival():
    root = ET.fromstring(sequence_svg(RACE))
    groups = {group.findtext(f"{SVG}title"): group for group in root.iter(f"{SVG}g")}
    group = groups["0.010000 s, server to client: val-foo; arrived 0.020000 s"]
    late, label = group.find(f"{SVG}line"), group.find(f"{SVG}text")
    assert late is not None
    assert label is not None
    assert label.get("text-anchor") == "end"
    assert int(label.get("x", 0)) < int(late.get("x1", 0))
    assert int(late.get("x1", 0)) > int(late.get("x2", 0))
    assert int(late.get("y2", 0)) - int(late.get("y1", 0)) == 3 * 26
    assert "0.012000 s, client to server: GET bar; never arrived" in groups
    assert len(list(root.iter(f"{SVG}circle"))) == 7
    for seed in range(10):
        ET.fromstring(sequence_svg(random_log(seed, 20)))


def test_the_trace_is_sound_and_keeps_the_order(tmp_path: Path):
    for seed in range(10):
        log = random_log(seed, 5)
        events = list(trace_events(log))
        assert find_problems(events) == []
        slices = [event for event in events if event["ph"] == "X"]
        assert [event["args"]["seconds"] for event in slices] == [entry.when for entry in log]
        assert all(before["ts"] < after["ts"] for before, after in itertools.pairwise(slices))
        arrivals = sum(len(message.arrivals) for message in find_messages(log))
        assert [event["ph"] for event in events].count("f") == arrivals > 0
    path = write_trace(RACE, tmp_path / "race.json")
    names = [
        event["args"]["name"]
        for event in json.loads(path.read_text())["traceEvents"]
        if event["ph"] == "M" and event["name"] == "thread_name"
    ]
    assert names == ["client", "server"]
    assert all(event["ts"] - event["args"]["seconds"] * 1e6 < 5 for event in trace_events(RACE) if event["ph"] == "X")


def test_an_empty_log_has_reports():
    assert sequence_diagram([]) == "\n"
    assert ET.fromstring(sequence_svg([])).tag == f"{SVG}svg"
    assert [event["ph"] for event in trace_events([])] == ["M"]
