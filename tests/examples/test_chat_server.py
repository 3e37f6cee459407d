"""The chat server answers what its README promises, whatever bytes come in."""

import json
import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from messages import MAX_LINE
from programs import LIFE, Child, Peer, command

JOIN = b'{"type":"join","group":"g","name":"n"}\n'

WRONG = {
    "empty": (b"\n", "not-json"),
    "text": (b"hello\n", "not-json"),
    "half": (b'{"type":"post",\n', "not-json"),
    "two": (b'{"type":"list","group":"g"} {}\n', "not-json"),
    "nan": (b'{"type":NaN}\n', "not-json"),
    "nested": (b"[" * 60_000 + b"\n", "not-json"),
    "digits": (b'{"type":' + b"9" * 5_000 + b"}\n", "not-json"),
    "nul": (b"\0\0\n", "not-json"),
    "latin-1": (b'{"type":"post","group":"g","text":"\xe4"}\n', "not-utf8"),
    "utf-16": ('{"type":"list"}'.encode("utf-16") + b"\n", "not-utf8"),
    "array": (b'["type","post"]\n', "not-object"),
    "string": (b'"post"\n', "not-object"),
    "null": (b"null\n", "not-object"),
    "no type": (b'{"group":"g"}\n', "missing-field"),
    "no text": (b'{"type":"post","group":"g"}\n', "missing-field"),
    "no name": (b'{"type":"join","group":"g"}\n', "missing-field"),
    "no group": (b'{"type":"leave"}\n', "missing-field"),
    "unknown": (b'{"type":"shout","text":"x"}\n', "unknown-type"),
    "event": (b'{"type":"bye","reason":"x"}\n', "unknown-type"),
    "type is a list": (b'{"type":["post"]}\n', "unknown-type"),
    "long type": (b'{"type":"' + b"x" * 60_000 + b'"}\n', "unknown-type"),
    "number": (b'{"type":"post","group":"g","text":5}\n', "wrong-type"),
    "object": (b'{"type":"join","group":{},"name":"n"}\n', "wrong-type"),
    "empty name": (b'{"type":"join","group":"g","name":""}\n', "bad-value"),
    "long name": (b'{"type":"join","group":"g","name":"' + b"x" * 33 + b'"}\n', "bad-value"),
    "name of spaces": (b'{"type":"join","group":"  ","name":"n"}\n', "bad-value"),
    "escape in name": (b'{"type":"join","group":"g","name":"\\u001b[2J"}\n', "bad-value"),
    "long text": (b'{"type":"post","group":"g","text":"' + b"x" * 8_001 + b'"}\n', "bad-value"),
    "half a surrogate": (b'{"type":"post","group":"g","text":"\\ud83d"}\n', "bad-value"),
    "too long": (b" " * MAX_LINE + JOIN, "too-long"),
    "far too long": (b"x" * 1_000_000 + b"\n", "too-long"),
}


@pytest.fixture(scope="module")
def port(backend_name: str) -> Iterator[int]:
    """Of a server that all tests of a backend share; each test has groups of its own."""
    start = command("chat/server.py", "--port", "0", "--keep", "1000", backend=backend_name)
    with Child(start, backend_name, life=LIFE) as child:
        yield child.port()


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group that no other test uses."""
    name: str = request.node.originalname
    return name[-24:].strip("_")


@pytest.mark.parametrize("case", WRONG)
def test_wrong_line_gets_an_error_and_the_connection_lives_on(port: int, case: str) -> None:
    line, code = WRONG[case]
    with Peer(port) as peer:
        peer.send(line)
        assert peer.error() == code
        peer.join(f"wrong {case}", "n")
        peer.send(line)
        assert peer.error() == code
        peer.ask("list", group=f"wrong {case}")
        assert peer.receive() == {"type": "members", "group": f"wrong {case}", "names": ["n"]}


def test_each_line_of_one_packet_is_answered_in_order(port: int) -> None:
    with Peer(port) as peer:
        peer.send(b"?\n", JOIN.replace(b"g", b"packet"), b'{"type":"list","group":"no"}\n', b"[]\n", b"?\n")
        codes = [peer.error()]
        peer.receive()
        codes += [peer.error(), peer.error(), peer.error()]
    assert codes == ["not-json", "not-joined", "not-object", "not-json"]


def test_line_that_comes_byte_by_byte_is_one_line(port: int, group: str) -> None:
    line = json.dumps({"type": "join", "group": group, "name": "äß"}, ensure_ascii=False).encode() + b"\n"
    with Peer(port) as peer:
        peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in line:
            peer.send(bytes([byte]))
        assert peer.receive() == {"type": "joined", "group": group, "name": "äß"}


def test_longest_line_is_taken_and_one_byte_more_is_not(port: int, group: str) -> None:
    line = json.dumps({"type": "join", "group": group, "name": "n"}).encode()
    with Peer(port) as peer:
        peer.send(line.ljust(MAX_LINE), b"\n")
        assert peer.error() == "too-long"
        peer.send(line.ljust(MAX_LINE - 1), b"\n")
        assert peer.receive() == {"type": "joined", "group": group, "name": "n"}


def test_over_long_line_is_skipped_to_its_newline_only(port: int, group: str) -> None:
    join = json.dumps({"type": "join", "group": group, "name": "n"}).encode() + b"\n"
    with Peer(port) as peer:
        for size in (MAX_LINE, MAX_LINE + 1, 2 * MAX_LINE - 1, 2 * MAX_LINE, 2 * MAX_LINE + 1, 5 * MAX_LINE):
            peer.send(b"x" * size, b"\n", b"?\n")
            assert (peer.error(), peer.error()) == ("too-long", "not-json")
        peer.send(b"x" * 300_000, b"\n", join)
        assert peer.error() == "too-long"
        assert peer.receive()["type"] == "joined"


def test_carriage_returns_and_unknown_fields_are_no_error(port: int, group: str) -> None:
    with Peer(port) as peer:
        peer.send(json.dumps({"type": "join", "group": group, "name": "n", "colour": [1]}).encode(), b"\r\n")
        assert peer.receive() == {"type": "joined", "group": group, "name": "n"}


def test_members_see_who_joins_posts_and_leaves(port: int, group: str) -> None:
    with Peer(port) as ann, Peer(port) as bob, Peer(port) as stranger:
        ann.join(group, "ann")
        bob.join(group, "bob")
        assert ann.receive() == {"type": "joined", "group": group, "name": "bob"}
        stranger.join(group + "?", "ann")
        bob.ask("post", group=group, text="grüß\x00\n🦜")
        posted = {"type": "message", "group": group, "name": "bob", "text": "grüß\x00\n🦜"}
        assert (ann.receive(), bob.receive()) == (posted, posted)
        bob.ask("list", group=group)
        assert bob.receive() == {"type": "members", "group": group, "names": ["ann", "bob"]}
        bob.ask("leave", group=group)
        left = {"type": "left", "group": group, "name": "bob"}
        assert (ann.receive(), bob.receive()) == (left, left)
        stranger.ask("list", group=group + "?")
        assert stranger.receive()["names"] == ["ann"], "what happens in another group came here"


def test_what_cannot_be_granted_is_refused(port: int, group: str) -> None:
    with Peer(port) as ann, Peer(port) as other:
        for kind in ("post", "leave", "list"):
            other.ask(kind, group=group, text="x")
            assert other.error() == "not-joined"
        ann.join(group, "ann")
        other.ask("join", group=group, name="ann")
        assert other.error() == "name-taken"
        ann.ask("join", group=group, name="ann2")
        assert ann.error() == "already-joined"
        other.join(group, "other")
        assert ann.receive() == {"type": "joined", "group": group, "name": "other"}
        ann.ask("leave", group=group)
        assert ann.receive()["type"] == "left"
        ann.ask("post", group=group, text="x")
        assert ann.error() == "not-joined"
        ann.join(group, "ann")


def test_client_that_closes_its_side_gets_its_answers_first(port: int, group: str) -> None:
    with Peer(port) as peer:
        peer.ask("join", group=group, name="n")
        for number in range(50):
            peer.ask("post", group=group, text=str(number))
        peer.send(b'{"type":"leave"')  # without its newline it is no message
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.receive()["type"] == "joined"
        assert [peer.receive()["text"] for _ in range(50)] == [str(number) for number in range(50)]
        assert peer.receive() == {}


@pytest.mark.parametrize("how", ["close", "reset"])
def test_client_that_vanishes_has_left(port: int, group: str, how: str) -> None:
    with Peer(port) as ann:
        ann.join(f"{group} {how}", "ann")
        with Peer(port) as bob:
            bob.join(f"{group} {how}", "bob")
            assert ann.receive()["name"] == "bob"
            if how == "reset":  # RST in place of FIN
                bob.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert ann.receive() == {"type": "left", "group": f"{group} {how}", "name": "bob"}


def test_messages_never_interleave_and_all_see_one_order(port: int, group: str) -> None:
    posters, posts, size = 6, 40, 3_000

    def post(peer: Peer, name: str) -> None:
        for number in range(posts):
            peer.ask("post", group=group, text=f"{name}:{number}:" + name * size)

    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(port)) for _ in range(posters)]
        for name, peer in zip("abcdef", peers, strict=True):
            peer.join(group, name)
        for number, peer in enumerate(peers):
            assert [peer.receive()["name"] for _ in range(5 - number)] == list("abcdef"[number + 1 :])
        threads = [threading.Thread(target=post, args=(peer, name)) for name, peer in zip("abcdef", peers, strict=True)]
        for thread in threads:
            thread.start()
        # `receive` takes the line apart as JSON: two interleaved ones would not pass. All read at once, for the
        # server does not read from who does not read.
        with ThreadPoolExecutor(posters) as readers:
            heard = list(readers.map(lambda peer: [peer.receive() for _ in range(posters * posts)], peers))
        for thread in threads:
            thread.join()
    assert all(message["type"] == "message" for message in heard[0]), "a member that reads missed something"
    assert all(other == heard[0] for other in heard[1:])
    for name in "abcdef":
        texts = [message["text"] for message in heard[0] if message["name"] == name]
        assert texts == [f"{name}:{number}:" + name * size for number in range(posts)]


def test_one_connection_in_many_groups_hears_each(port: int, group: str) -> None:
    with Peer(port) as peer:
        for number in range(50):
            peer.join(f"{group} {number}", f"name{number}")
        peer.ask("join", group="one more", name="n")
        assert peer.error() == "too-many-groups"
        for number in range(50):
            peer.ask("post", group=f"{group} {number}", text="x")
            assert peer.receive()["name"] == f"name{number}"


def test_hundred_clients_in_one_group(port: int, group: str) -> None:
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(port)) for _ in range(100)]
        for number, peer in enumerate(peers):
            peer.join(group, f"n{number}")
        peers[99].ask("list", group=group)
        assert peers[99].receive()["names"] == sorted(f"n{number}" for number in range(100))
        peers[0].ask("post", group=group, text="hello")
        for number, peer in enumerate(peers):
            assert [peer.receive()["name"] for _ in range(99 - number)] == [f"n{n}" for n in range(number + 1, 100)]
            assert peer.receive() == {"type": "message", "group": group, "name": "n0", "text": "hello"}
