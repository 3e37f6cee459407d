"""Options of plugins: written as text, converted by the signature of what makes the plugin."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopcore.errors import UsageError
from loopcore.selection.discovery import load_plugin, load_plugins
from loopcore.selection.plugin_options import parse_wishes
from tests.unit.selection.fakes import Entry


class Metrics:
    def __init__(
        self,
        port: int = 9100,
        *,
        host="::1",
        every: float | None = None,
        quiet: bool = False,
        file: Optional[Path] = None,
        callback: Callable[[], None] | None = None,
    ) -> None:
        self.options = {"port": port, "host": host, "every": every, "quiet": quiet, "file": file, "callback": callback}


@pytest.fixture
def metrics(install):
    install(Entry("metrics", Metrics, value="m:Metrics"), group="loopcore.plugins")
    return lambda text: load_plugins(f"metrics:{text}")[0][1].options


# The text


@pytest.mark.parametrize(
    ("text", "wishes"),
    [
        ("", []),
        (" , ,", []),
        ("a", [("a", {})]),
        (" b ,, a,", [("b", {}), ("a", {})]),
        ("a:x=1", [("a", {"x": "1"})]),
        (" a : x = 1 , y = 2 , b ", [("a", {"x": "1", "y": "2"}), ("b", {})]),
        ("a,x=1", [("a", {"x": "1"})]),
        ("a:x=::1,y=http://h:80/?k=v,b:z=", [("a", {"x": "::1", "y": "http://h:80/?k=v"}), ("b", {"z": ""})]),
        (r"a:file=C:\out=1", [("a", {"file": r"C:\out=1"})]),
        ("a,a", [("a", {})]),
        ("a:x=1,a:x=1", [("a", {"x": "1"})]),
    ],
)
def test_plugins_and_their_options_are_separated_by_commas(text, wishes):
    assert parse_wishes(text) == wishes


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("port=1", "'port=1' is an option, but of which plugin? write NAME:port=1"),
        ("a:port", "plugin 'a': option 'port' has no value; write a:port=VALUE, or a alone"),
        ("a:", "plugin 'a': '' names no option; write a:OPTION=VALUE"),
        ("a:=1", "plugin 'a': '=1' names no option"),
        ("a:x=1,=2", "plugin 'a': '=2' names no option"),
        ("a:x=1,x=2", "plugin 'a': option 'x' is given twice"),
        ("a:x=1,a:x=2", "plugin 'a' is named twice, with different options"),
        ("a,a:x=2", "plugin 'a' is named twice, with different options"),
    ],
)
def test_text_that_makes_no_sense_says_what_to_write(text, complaint):
    with pytest.raises(UsageError) as caught:
        parse_wishes(text)
    assert str(caught.value).startswith(complaint)


NAMES = st.text("abc_", min_size=1)
VALUES = st.text("abc:= /", max_size=8).map(str.strip)


@given(st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES)))
def test_whatever_is_written_is_read_again(plugins):
    parts = []
    for name, options in plugins.items():
        parts += [name] + [f"{option}={value}" for option, value in options.items()]
    assert parse_wishes(",".join(parts)) == list(plugins.items())


# The values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("port=80", 80),
        ("host=1", "1"),
        ("every=0.5", 0.5),
        ("file=a/b", Path("a/b")),
        ("quiet=Yes", True),
        ("quiet=0", False),
        ("quiet=off", False),
    ],
)
def test_values_are_converted_as_parameters_are_annotated(metrics, text, value):
    option = text.partition("=")[0]
    converted = metrics(text)[option]
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("port=http", "option 'port' takes int, not 'http'"),
        ("port=", "option 'port' takes int, not ''"),
        ("every=often", "option 'every' takes float, not 'often'"),
        ("quiet=maybe", "option 'quiet' takes bool (yes or no), not 'maybe'"),
        (
            "callback=f",
            "option 'callback' is a Callable, which cannot be given as text; create the plugin in the program",
        ),
        ("prot=1", "no option 'prot' (did you mean 'port'?); it accepts port=int, host=str, every=float, quiet=bool"),
    ],
)
def test_wrong_option_names_plugin_option_and_what_is_accepted(metrics, text, complaint):
    with pytest.raises(UsageError) as caught:
        metrics(text)
    assert str(caught.value).startswith("plugin 'metrics'")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_error_of_the_variable_names_the_variable(metrics, monkeypatch):
    monkeypatch.setenv("LOOPCORE_PLUGINS", "metrics:port=x")
    message = r"^LOOPCORE_PLUGINS=metrics:port=x: plugin 'metrics': option 'port' takes int"
    with pytest.raises(UsageError, match=message):
        load_plugins()


def test_functions_partials_and_builtins_are_called_with_options(install):
    def function(a: "int", **rest: float):
        return a, rest

    made = object()
    targets = {"function": function, "partial": functools.partial(function, 1), "dict": dict, "made": made}
    install(*(Entry(name, target) for name, target in targets.items()), group="loopcore.plugins")
    assert load_plugin("function", {"a": "1", "b": "2.5"}) == (1, {"b": 2.5})
    assert load_plugin("partial", {"b": "2.5"}) == (1, {"b": 2.5})
    assert load_plugin("dict") == {}
    with pytest.raises(UsageError, match=r"plugin 'function': missing a required argument: 'a'"):
        load_plugin("function")
    with pytest.raises(UsageError, match=r"plugin 'dict': its options cannot be read: ValueError"):
        load_plugin("dict", {"a": "1"})
    with pytest.raises(UsageError, match=r"plugin 'made' .*accepts no options: it is an object already"):
        load_plugin("made", {"a": "1"})


def test_plugin_without_parameters_says_that_it_accepts_none(install):
    install(Entry("plain", type("Plain", (), {})), group="loopcore.plugins")
    with pytest.raises(UsageError, match=r"has no option 'a'; it accepts no options"):
        load_plugin("plain", {"a": "1"})


def test_names_texts_and_objects_can_be_mixed(metrics):
    mine: Any = object()
    (first, made), second = load_plugins(["metrics:port=1,quiet=yes", mine])
    assert (first, made.options["port"], made.options["quiet"]) == ("metrics", 1, True)
    assert second == (None, mine)
