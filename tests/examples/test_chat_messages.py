"""The wire format survives whatever it is given, and loses nothing that it takes."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from messages import (
    EVENTS,
    MAX_LINE,
    MAX_MEMBERS,
    MAX_NAME,
    MAX_TEXT,
    REQUESTS,
    Error,
    Join,
    Members,
    Missed,
    Post,
    Posted,
    WireError,
    decode,
    encode,
)

names = st.text("aZ09-_'\"\\{}[]äß漢🦜", min_size=1, max_size=MAX_NAME)
texts = st.text(min_size=1, max_size=300)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "group": names,
    "name": names,
    "names": st.lists(names, max_size=5).map(tuple),
    "text": texts,
    "count": st.integers(min_value=1),
    "code": texts,
    "reason": texts,
}
VOCABULARIES = {**REQUESTS, **EVENTS}
messages = st.one_of(
    [
        st.builds(cls, **{field.name: FIELDS[field.name] for field in dataclasses.fields(cls)})
        for cls in VOCABULARIES.values()
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
almost_messages = st.dictionaries(
    st.sampled_from(["type", *FIELDS]), st.sampled_from([*VOCABULARIES]) | json_values | st.text()
)


@given(messages)
def test_what_is_encoded_is_decoded_to_the_same(message: Any) -> None:
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line, VOCABULARIES) == message


def attempt(line: bytes, vocabulary: Mapping[str, type[Any]]) -> Any:
    """The message in `line`, or what a server answers if there is none. Any other exception fails the test."""
    try:
        return decode(line, vocabulary)
    except WireError as error:
        return Error(error.code, error.reason)


@given(st.binary())
@example(b"\xef\xbb\xbf{}")
@example(b'{"type":"list","group":' + b"[" * 100_000)
@example(b"1" * 10_000)
@example(b'{"type":"' + b"x" * 10_000 + b'"}')
def test_any_bytes_give_a_request_or_a_right_answer(line: bytes) -> None:
    found = attempt(line, REQUESTS)
    if isinstance(found, Error):
        answer = encode(found)
        assert decode(answer, EVENTS) == found
        assert len(answer) < 500, "an error must not carry the whole wrong line back"


@given(almost_messages)
def test_any_object_gives_a_request_or_a_right_answer(members: dict[str, Any]) -> None:
    found = attempt(json.dumps(members).encode(), REQUESTS)
    fields = json.loads(encode(found))
    if isinstance(found, Error):
        assert decode(encode(found), EVENTS) == found
    else:
        assert fields.items() <= members.items()


def test_no_valid_message_is_longer_than_a_line() -> None:
    assert len(encode(Post("\U0001f99c" * MAX_NAME, "\x01" * MAX_TEXT))) <= MAX_LINE
    assert len(encode(Posted('"' * MAX_NAME, "\U0001f99c" * MAX_NAME, "\x01" * MAX_TEXT))) <= MAX_LINE
    assert len(encode(Members("g" * MAX_NAME, ("\U0001f99c" * MAX_NAME,) * MAX_MEMBERS))) <= MAX_LINE


def test_limits_are_exact() -> None:
    assert decode(encode(Join("g" * MAX_NAME, "n")), REQUESTS)
    assert decode(encode(Post("g", "x" * MAX_TEXT)), REQUESTS)
    for message in (Join("g" * (MAX_NAME + 1), "n"), Post("g", "x" * (MAX_TEXT + 1)), Post("g", "")):
        with pytest.raises(WireError) as caught:
            decode(encode(message), REQUESTS)
        assert caught.value.code == "bad-value"


@pytest.mark.parametrize("count", ["true", "1.0", '"1"', "null", "[]"])
def test_count_is_a_whole_number(count: str) -> None:
    line = '{"type":"missed","group":"g","count":%s}'
    assert decode((line % "3").encode(), EVENTS) == Missed("g", 3)
    with pytest.raises(WireError, match="whole number"):
        decode((line % count).encode(), EVENTS)


def test_names_are_a_list_of_names() -> None:
    for wrong in ('"ann"', '["ann",5]', '{"ann":1}'):
        with pytest.raises(WireError, match="names"):
            decode(f'{{"type":"members","group":"g","names":{wrong}}}'.encode(), EVENTS)
