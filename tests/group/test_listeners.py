"""The listening sockets of a group: which member gets which, and when they are closed."""

import asyncio
import errno
import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loopcore.group import GroupError
from loopcore.group.listeners import Listeners, bind_like, remove_socket
from loopcore.group.part import ListenRequest

ARGUMENTS = {"host": "127.0.0.1", "port": 0, "family": 0, "reuse_address": None, "reuse_port": False}
REQUEST = ListenRequest("tcp", tuple(sorted(ARGUMENTS.items())), 0)


@dataclass(frozen=True)
class User:
    """A member, for which only its place matters."""

    index: int


MEMBERS = User(0), User(1)


async def test_a_server_that_is_closed_as_it_is_made_is_refused() -> None:
    listeners = Listeners(1, ())
    listening = asyncio.create_task(listeners.listen(MEMBERS[0], REQUEST))
    await asyncio.sleep(0)
    listeners._making[REQUEST].add_done_callback(lambda made: listeners.close())
    with pytest.raises(GroupError, match="the group is ending"):
        await listening


async def test_a_server_that_is_closed_before_it_is_made_is_refused() -> None:
    listeners = Listeners(1, ())
    listening = asyncio.create_task(listeners.listen(MEMBERS[0], REQUEST))
    await asyncio.sleep(0)
    listeners.close()
    with pytest.raises(GroupError, match="the group is ending"):
        await listening


async def test_a_server_that_another_member_closes_as_it_is_made_is_made_again() -> None:
    listeners = Listeners(2, ())
    listening = asyncio.create_task(listeners.listen(MEMBERS[1], REQUEST))
    await asyncio.sleep(0)

    def close(made: object) -> None:
        ((_, server),) = listeners._made()
        server.users.add(MEMBERS[0])
        listeners.release(MEMBERS[0], server.number)

    listeners._making[REQUEST].add_done_callback(close)
    answer = await listening
    assert answer.sockets
    for sock in answer.sockets:
        sock.close()
    listeners.close()


async def test_sockets_that_are_made_again_do_not_listen_before_their_member() -> None:
    listeners = Listeners(2, ())
    for index in (0, 1):
        for sock in (await listeners.listen(MEMBERS[index], REQUEST)).sockets:
            sock.close()
    listeners.release(MEMBERS[0], 0)
    for sock in (await listeners.listen(MEMBERS[0], REQUEST)).sockets:
        with sock:
            assert not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    listeners.close()


async def test_a_server_that_could_not_be_made_is_made_when_it_can_be() -> None:
    listeners = Listeners(1, ())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        arguments = ARGUMENTS | {"port": taken.getsockname()[1]}
        request = ListenRequest("tcp", tuple(sorted(arguments.items())), 0)
        with pytest.raises(OSError, match="in use"):
            await listeners.listen(MEMBERS[0], request)
    answer = await listeners.listen(MEMBERS[0], request)
    for sock in answer.sockets:
        sock.close()
    assert listeners._numbers == {answer.number}
    listeners.close()


@pytest.mark.parametrize(("platform", "share"), [("linux", False), ("darwin", True), ("freebsd14", True)])
async def test_members_share_a_socket_where_the_kernel_would_give_all_connections_to_one(
    monkeypatch: pytest.MonkeyPatch, platform: str, share: bool
) -> None:
    if sys.platform != "linux" and not share:
        pytest.skip("SO_REUSEPORT distributes connections on Linux only")
    monkeypatch.setattr(sys, "platform", platform)
    listeners = Listeners(2, ())
    for member in MEMBERS:
        for sock in (await listeners.listen(member, REQUEST)).sockets:
            sock.close()
    ((_, server),) = listeners._made()
    assert (server.of(0) == server.of(1)) == share
    listeners.close()


@pytest.mark.skipif(sys.platform != "linux", reason="members share a socket elsewhere")
async def test_no_socket_is_left_open_if_the_port_of_another_is_taken_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[socket.socket] = []

    def bind_one(pattern: socket.socket, name: Any) -> socket.socket:
        if made:
            assert made[0].fileno() >= 0
            raise OSError(errno.EADDRINUSE, "Address already in use")
        made.append(bind_like(pattern, name))
        return made[0]

    monkeypatch.setattr("loopcore.group.listeners.bind_like", bind_one)
    arguments = ARGUMENTS | {"host": ("127.0.0.1", "127.0.0.2")}
    listeners = Listeners(2, ())
    for sock in (await listeners.listen(MEMBERS[0], ListenRequest("tcp", tuple(sorted(arguments.items())), 0))).sockets:
        sock.close()
    assert [sock.fileno() for sock in made] == [-1]
    listeners.close()


@pytest.mark.skipif(sys.platform != "linux", reason="members share a socket elsewhere")
async def test_no_socket_is_left_open_if_another_member_cannot_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    def bind_one(pattern: socket.socket, name: Any) -> socket.socket:
        if len(made) == 2:
            raise OSError(errno.EMFILE, "Too many open files")
        made.append(bind_like(pattern, name))
        return made[-1]

    monkeypatch.setattr("loopcore.group.listeners.bind_like", bind_one)
    listeners = Listeners(3, ())
    with pytest.raises(OSError, match="Too many open files"):
        await listeners.listen(MEMBERS[0], REQUEST)
    assert [sock.fileno() for sock in made] == [-1, -1]
    listeners.close()


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no Unix sockets on this platform")
def test_a_socket_that_another_program_has_put_there_is_left(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(path)
        status = os.stat(path)
        remove_socket(path, (status.st_dev, status.st_ino + 1))
        assert os.path.exists(path)
        remove_socket(path, (status.st_dev, status.st_ino))
        assert not os.path.exists(path)
