"""Connections on their way from one member to another: none is lost, and giving never waits."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from loopcore.group import post
from loopcore.group.post import SocketPost, ThreadInbox, ThreadPost, socket_pairs


@pytest.fixture
def loop() -> asyncio.AbstractEventLoop:  # also where the project's own fixture would run each test on every backend
    loop = asyncio.SelectorEventLoop()
    yield loop  # type: ignore[misc]
    loop.close()


def in_threads() -> tuple[list[post.Post], Callable[[], None]]:
    inboxes: list[ThreadInbox | None] = [None, None]
    return [ThreadPost(inboxes, 0), ThreadPost(inboxes, 1)], lambda: None


def in_processes() -> tuple[list[post.Post], Callable[[], None]]:
    pairs = socket_pairs(2)
    senders = [pair[1] for pair in pairs]

    def close() -> None:
        for pair in pairs:
            for sock in pair:
                sock.close()

    return [SocketPost(pairs[0][0], senders, 0), SocketPost(pairs[1][0], senders, 1)], close


KINDS = [in_threads, *([in_processes] if hasattr(socket, "AF_UNIX") else [])]
Make = Callable[[], tuple[list[post.Post], Callable[[], None]]]


@pytest.mark.parametrize("make", KINDS)
def test_a_connection_arrives_with_its_sender_and_server(make: Make, loop: asyncio.AbstractEventLoop) -> None:
    (giver, taker), close = make()
    arrived: asyncio.Future[tuple[int, int, socket.socket]] = loop.create_future()
    taker.open(loop, lambda *what: arrived.set_result(what))
    ours, theirs = socket.socketpair()
    assert giver.give(1, 7, theirs)
    sender, number, sock = loop.run_until_complete(arrived)
    assert (sender, number) == (0, 7)
    sock.sendall(b"here")
    assert ours.recv(4) == b"here"
    sock.close()
    assert ours.recv(1) == b""  # the giver has no copy
    ours.close()
    taker.close(replaced=False)
    close()


@pytest.mark.parametrize("make", KINDS)
def test_a_full_inbox_refuses_and_loses_nothing(make: Make, loop: asyncio.AbstractEventLoop) -> None:
    (giver, taker), close = make()
    arrived: list[socket.socket] = []
    taker.open(loop, lambda sender, number, sock: arrived.append(sock))
    ours, given = [], 0
    while True:
        our, their = socket.socketpair()
        ours.append(our)
        if not giver.give(1, 0, their):
            assert their.fileno() >= 0  # left alone
            their.close()
            break
        given += 1
        assert given < 10_000
    taker.close(replaced=False)
    assert len(arrived) == given > 0
    for sock in (*ours, *arrived):
        sock.close()
    close()


def test_an_inbox_of_a_thread_holds_as_many_as_it_says(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post, "CAPACITY", 1)
    (giver, taker), _ = in_threads()
    taker.open(loop, lambda sender, number, sock: sock.close())  # type: ignore[union-attr]
    ours, theirs = socket.socketpair()
    assert giver.give(1, 0, theirs)
    assert not giver.give(1, 0, ours)
    taker.close(replaced=False)
    ours.close()


def test_a_closed_inbox_of_a_thread_refuses(loop: asyncio.AbstractEventLoop) -> None:
    (giver, taker), _ = in_threads()
    ours, theirs = socket.socketpair()
    assert not giver.give(1, 0, theirs)
    taker.open(loop, lambda *what: None)
    taker.close(replaced=False)
    assert not giver.give(1, 0, theirs)
    ours.close()
    theirs.close()


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="descriptors between processes")
def test_a_connection_that_the_receiver_cannot_open_is_reported(loop: asyncio.AbstractEventLoop) -> None:
    """The system drops descriptors that a process has no room for, and delivers the rest of the message."""
    (_, taker), close = in_processes()
    arrived: asyncio.Future[tuple[int, int, socket.socket | None]] = loop.create_future()
    taker.open(loop, lambda *what: arrived.set_result(what))
    taker._senders[1].send(post._HEADER.pack(0, 7))  # type: ignore[attr-defined]
    assert loop.run_until_complete(arrived) == (0, 7, None)
    taker.close(replaced=False)
    close()


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="descriptors between processes")
def test_what_is_on_its_way_waits_for_the_replacement(loop: asyncio.AbstractEventLoop) -> None:
    pairs = socket_pairs(2)
    senders = [pair[1] for pair in pairs]
    giver, old = SocketPost(pairs[0][0], senders, 0), SocketPost(pairs[1][0], senders, 1)
    old.open(loop, lambda *what: pytest.fail("it has retired"))
    ours, theirs = socket.socketpair()
    assert giver.give(1, 3, theirs)
    old.close(replaced=True)
    arrived: asyncio.Future[socket.socket] = loop.create_future()
    new = SocketPost(pairs[1][0], senders, 1)
    new.open(loop, lambda sender, number, sock: arrived.set_result(sock))
    loop.run_until_complete(arrived).close()
    new.close(replaced=False)
    ours.close()
    for pair in pairs:
        for sock in pair:
            sock.close()
