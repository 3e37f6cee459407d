"""A slow member holds up nobody, and is told exactly what it missed, exactly where."""

import threading
from collections.abc import Iterator

import pytest
from programs import LIFE, Child, Peer, command

POSTS = 400
TEXT = "x" * 4_000
"""400 posts of this are 1.6 MB: more than the buffers between the server and a member that does not read."""

SMALL = 16 * 1024


@pytest.fixture(scope="module")
def port(backend_name: str) -> Iterator[int]:
    """Of a server that keeps 10 messages for a member."""
    start = command("chat/server.py", "--port", "0", "--keep", "10", backend=backend_name)
    with Child(start, backend_name, life=LIFE) as child:
        yield child.port()


def post_all(poster: Peer, group: str, first: int, count: int) -> None:
    """Post `count` numbered messages, each after the answer to the one before."""
    for number in range(first, first + count):
        poster.ask("post", group=group, text=f"{number} {TEXT}")
        assert poster.receive() == {"type": "message", "group": group, "name": "poster", "text": f"{number} {TEXT}"}


def drain(slow: Peer, group: str, first: int) -> tuple[int, int, int]:
    """Read numbered messages up to the answer to an own request; the next number, received, missed."""
    expected, received, missed = first, 0, 0
    slow.ask("list", group=group)
    while (message := slow.receive())["type"] != "members":
        assert message["group"] == group
        if message["type"] == "missed":
            # The gap stands where it happened: the next number tells that its count is right.
            missed += message["count"]
            expected += message["count"]
        else:
            assert int(message["text"].split()[0]) == expected
            received += 1
            expected += 1
    return expected, received, missed


def test_slow_member_is_told_how_many_it_missed(port: int) -> None:
    with Peer(port) as poster, Peer(port, receive_buffer=SMALL) as slow:
        slow.join("count", "slow")
        poster.join("count", "poster")
        assert slow.receive()["type"] == "joined"
        after = 0
        for _ in range(2):  # and once more, after it has caught up
            post_all(poster, "count", first=after, count=POSTS)
            expected, received, missed = drain(slow, "count", first=after)
            after += POSTS
            assert expected == after
            assert received + missed == POSTS
            assert missed > 0
        post_all(poster, "count", first=after, count=5)
        assert drain(slow, "count", first=after) == (after + 5, 5, 0)


def test_member_that_reads_misses_nothing_beside_one_that_does_not(port: int) -> None:
    with Peer(port) as poster, Peer(port) as reading, Peer(port, receive_buffer=SMALL) as slow:
        for peer, name in ((slow, "slow"), (reading, "reading"), (poster, "poster")):
            peer.join("both", name)
        assert reading.receive()["name"] == "poster"
        for number in range(POSTS):
            post_all(poster, "both", first=number, count=1)
            assert reading.receive()["text"] == f"{number} {TEXT}"
        assert [slow.receive()["name"] for _ in range(2)] == ["reading", "poster"]
        _, received, missed = drain(slow, "both", first=0)
        assert missed > 0
        assert received + missed == POSTS


def test_gaps_of_several_groups_are_counted_apart(port: int) -> None:
    groups = ("first", "second")
    with Peer(port) as poster, Peer(port, receive_buffer=SMALL) as slow:
        for group in groups:
            slow.join(group, "slow")
            poster.join(group, "poster")
            assert slow.receive()["name"] == "poster"
        for number in range(POSTS):
            # Twice as many in the first group as in the second.
            post_all(poster, groups[number % 3 % 2], first=number, count=1)
        total = dict.fromkeys(groups, 0)
        missed = dict.fromkeys(groups, 0)
        for group in groups:
            slow.ask("leave", group=group)
            while (message := slow.receive())["type"] != "left":
                total[message["group"]] += message.get("count", 1)
                missed[message["group"]] += message.get("count", 0)
    assert total == {"first": sum(n % 3 != 1 for n in range(POSTS)), "second": sum(n % 3 == 1 for n in range(POSTS))}
    assert missed["first"] > 0
    assert missed["second"] > 0


def test_who_posts_without_reading_loses_no_answer(port: int) -> None:
    count = 2 * POSTS
    with Peer(port, receive_buffer=SMALL) as deaf, Peer(port) as other:
        deaf.join("deaf", "deaf")

        def flood() -> None:
            for number in range(count):
                deaf.ask("post", group="deaf", text=f"{number} {TEXT}")

        flooding = threading.Thread(target=flood)
        flooding.start()
        for _ in range(100):  # the server is there for others meanwhile
            other.ask("list", group="deaf")
            assert other.error() == "not-joined"
        # More is posted than all buffers hold, so the server stops reading; nothing is lost by that.
        assert [int(deaf.receive()["text"].split()[0]) for _ in range(count)] == list(range(count))
        flooding.join()
