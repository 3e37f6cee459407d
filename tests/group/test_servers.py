"""Servers of a group: one port, connections that go to another member, and their end."""

import asyncio
import errno
import os
import socket
import ssl
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from loopcore import UsageError
from loopcore.group import GroupError, LoopGroup, MemberFailedError
from loopcore.group.load import SERVERS, Load, LoadTable, cells_of
from loopcore.group.server import GroupServer, reset
from tests.group import mains
from tests.group.mains import PATIENCE, asked, connected

Make = Callable[..., LoopGroup]


def port_of(group: LoopGroup, index: int = 0) -> int:
    return int(group.run_on(index, mains.port).result(PATIENCE))


def test_every_connection_can_be_given_to_another_member(make_group: Make) -> None:
    with make_group(mains.gives_all_away, loops=3) as group:
        clients = [connected(port_of(group)) for _ in range(20)]
        answers = [asked(client) for client in clients]
        stats = group.stats(PATIENCE)
        assert stats.total.accepted == stats.total.handed_over == stats.total.taken_over == 20
        assert stats.total.connections == 20
        for each in stats.members:
            assert each.taken_over == each.connections == answers.count(each.index)
            accepted_before = stats.members[(each.index - 1) % 3].accepted
            assert each.taken_over == accepted_before
        for client in clients:
            client.close()


@pytest.mark.skipif(sys.platform == "win32", reason="processes")
def test_children_of_a_member_process_inherit_no_socket() -> None:
    with LoopGroup(mains.gives_all_away, loops=2, kind="processes") as group:
        with connected(port_of(group)) as client:
            index = asked(client)
            assert group.run_on(index, mains.inheritable_sockets).result(PATIENCE) == []


def test_sockets_of_a_server_that_is_cancelled_as_they_come_are_closed(make_group: Make) -> None:
    with make_group(mains.only_waits) as group:
        outcomes = [
            group.run_on(0, mains.sockets_of_a_cancelled_server, ticks).result(PATIENCE) for ticks in range(2, 6)
        ]
        assert outcomes[0] is not None
        assert all(set(each) == {-1} for each in outcomes if each is not None)


def test_connections_are_counted_until_they_are_closed(make_group: Make) -> None:
    with make_group(mains.gives_all_away) as group:
        client = connected(port_of(group))
        asked(client)
        assert group.stats(PATIENCE).total.connections == 1
        client.close()
        while group.stats(PATIENCE).total.connections:
            pass
        counters = group.stats(PATIENCE).total.counters
        assert counters is not None
        assert counters.connections_accepted == 1


def test_a_member_serves_what_it_accepts_if_its_gift_is_refused(make_group: Make) -> None:
    """The other member has closed its server, and no inbox takes a connection for it."""
    with make_group(mains.serves) as group:
        number = port_of(group)
        group.run_on(1, mains.close_server).result(PATIENCE)
        group.stats(PATIENCE)  # is answered when the group has closed its copy of the socket, too
        for _ in range(5):
            with connected(number) as client:
                assert asked(client) == 0


def test_streams_work_in_members(make_group: Make) -> None:
    with make_group(mains.serves_streams) as group, connected(port_of(group)) as client:
        assert asked(client) in (0, 1)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="Unix sockets")
@pytest.mark.parametrize("kind_of_path", [str, Path])
def test_a_unix_socket_is_shared_and_removed(make_group: Make, tmp_path: Path, kind_of_path: type) -> None:
    path = tmp_path / "group.sock"
    with make_group(partial(mains.serves_unix, path=kind_of_path(path))):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(str(path))
            assert asked(client) in (0, 1)
    assert not path.exists()


def test_a_connection_that_arrives_at_the_end_does_not_keep_its_member(make_group: Make) -> None:
    assert make_group(mains.aborts_at_once, loops=1).run() == 0


def test_a_server_that_is_cancelled_does_not_wait_for_a_handshake(make_group: Make) -> None:
    assert make_group(mains.ends_in_a_handshake, loops=1).run() == 0


def test_a_socket_that_the_program_has_can_be_served(make_group: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        with make_group(mains.serves_given, sockets=[sock]):
            with connected(sock.getsockname()[1]) as client:
                assert asked(client) in (0, 1)
        assert sock.fileno() >= 0


def test_equal_servers_of_one_member_are_different_servers(make_group: Make) -> None:
    with make_group(mains.serves_two) as group:
        assert port_of(group, 0) == port_of(group, 1)


def test_equal_servers_that_are_made_at_once_are_different_servers(make_group: Make) -> None:
    with make_group(mains.serves_two_at_once) as group, connected(port_of(group)) as client:
        assert asked(client) in (0, 1)


def test_the_numbers_of_closed_servers_are_used_again(make_group: Make) -> None:
    with make_group(mains.only_waits) as group:
        numbers = [group.run_on(0, mains.number_of_next_server).result(PATIENCE) for _ in range(2 * SERVERS)]
    assert numbers == [*range(SERVERS)] * 2


def test_servers_beyond_those_that_can_hand_over_serve_what_they_accept(make_group: Make) -> None:
    with make_group(mains.only_waits) as group:
        assert group.run_on(0, mains.open_servers, SERVERS + 2).result(PATIENCE) == [True] * SERVERS + [False] * 2


def test_connections_of_a_closed_server_may_finish_when_its_number_is_used_again(make_group: Make) -> None:
    with make_group(mains.serves, loops=1) as group:
        client = connected(port_of(group))
        asked(client)
        group.run_on(0, mains.close_server).result(PATIENCE)
        numbers = [group.run_on(0, mains.number_of_next_server).result(PATIENCE) for _ in range(SERVERS)]
        assert numbers[-1] == 0
        group.request_drain()
        assert asked(client) == 0
        client.close()
        assert group.wait(PATIENCE)


def test_a_port_that_is_taken_is_an_error(make_group: Make) -> None:
    """Although SO_REUSEPORT would let the group have it: the other program has it, too."""
    with socket.socket() as taken:
        if hasattr(socket, "SO_REUSEPORT"):
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        group = make_group(partial(mains.serves_port, port=taken.getsockname()[1]))
        with pytest.raises(MemberFailedError, match="address already in use"):
            group.start()


def test_a_closed_server_refuses_connections(make_group: Make) -> None:
    with make_group(mains.serves) as group:
        number = port_of(group)
        for index in range(2):
            group.run_on(index, mains.close_server).result(PATIENCE)
        group.run_on(0, mains.index).result(PATIENCE)
        group.stats(PATIENCE)
        with pytest.raises(ConnectionRefusedError):
            connected(number)


def test_members_may_run_on_asyncio(make_group: Make) -> None:
    with make_group(mains.gives_all_away, loop_factory=asyncio.SelectorEventLoop) as group:
        assert group.run_on(0, mains.loop_module).result(PATIENCE).startswith("asyncio")
        with connected(port_of(group)) as client:
            asked(client)
        stats = group.stats(PATIENCE)
        assert stats.total.handed_over == 1
        assert stats.total.counters is None


def test_a_socket_that_the_group_does_not_have_is_refused(make_group: Make) -> None:
    with pytest.raises(MemberFailedError) as caught:
        make_group(mains.serves_given).start()
    assert isinstance(caught.value.__cause__, UsageError)
    assert "LoopGroup(sockets=...)" in str(caught.value.__cause__)


# The end


def test_connections_may_finish_while_a_group_drains(make_group: Make) -> None:
    with make_group(mains.gives_all_away) as group:
        client = connected(port_of(group))
        first = asked(client)
        group.request_drain(timeout=PATIENCE)
        while any(each.state != "draining" for each in group.members if each.index == first):
            pass
        assert asked(client, b"still") == first
        client.close()
        assert group.wait(PATIENCE)
    assert group.exit_code == 0


def test_connections_are_closed_at_the_deadline(make_group: Make) -> None:
    group = make_group(mains.gives_all_away)
    group.start()
    client = connected(port_of(group))
    asked(client)
    group.drain(timeout=0)
    assert client.recv(1) == b""
    client.close()
    assert group.exit_code == 0


def test_connections_that_wait_to_be_accepted_are_served(make_group: Make) -> None:
    """The members accept nothing before they drain."""
    with make_group(mains.serves_when_released) as group:
        number = port_of(group)
        clients = [connected(number) for _ in range(10)]
        group.request_drain(timeout=PATIENCE)
        answers = {asked(client) for client in clients}
        assert answers <= {0, 1}
        for client in clients:
            client.close()
        assert group.wait(PATIENCE)
        assert group.exit_code == 0


def test_a_drain_during_a_restart_serves_connections_that_wait_to_be_accepted(make_group: Make) -> None:
    with make_group(mains.serves_when_released_once, loops=1) as group:
        clients = [connected(port_of(group)) for _ in range(10)]
        supervisor = group._supervisor
        assert supervisor is not None
        supervisor.ask_to_replace(supervisor._hosts[0])
        while not any(host.began.is_set() for host in list(supervisor._extra)):
            pass
        group.request_drain(timeout=PATIENCE)
        assert {asked(client) for client in clients} == {0}
        for client in clients:
            client.close()
        assert group.wait(PATIENCE)
        assert group.exit_code == 0


def test_a_restarted_member_loses_no_connection(make_group: Make) -> None:
    with make_group(mains.serves) as group:
        number = port_of(group)
        old = [connected(number) for _ in range(10)]
        before = [asked(client) for client in old]
        group._supervisor.ask_to_replace(group._supervisor._hosts[1])  # type: ignore[union-attr] - without waiting for the old connections
        while not any(each.index == 1 and each.generation == 1 for each in group.members):
            with connected(number) as client:
                asked(client)
        assert [asked(client) for client in old] == before
        new = [connected(number) for _ in range(10)]
        assert {asked(client) for client in new} <= {0, 1}
        for client in (*old, *new):
            client.close()
    assert group.exit_code == 0


def test_a_successor_that_fails_leaves_the_old_member(make_group: Make, tmp_path: Path) -> None:
    with make_group(mains.fails_as_successor) as group:
        number = port_of(group)
        with pytest.raises(MemberFailedError, match="no second time"):
            group.restart(1)
        assert [(each.state, each.generation) for each in group.members] == [("running", 0)] * 2
        with connected(number) as client:
            asked(client)


def test_a_successor_that_is_never_ready_is_ended_and_the_old_member_stays(make_group: Make) -> None:
    with make_group(mains.serves_once_at_0) as group:
        number = port_of(group)
        with pytest.raises(TimeoutError, match=r"member 0's successor was not ready after 0\.2 seconds.*member\.ready"):
            group.restart(0, ready_timeout=0.2)
        assert [(each.state, each.generation) for each in group.members] == [("running", 0)] * 2
        with connected(number) as client:
            asked(client)
    assert group.exit_code == 0


def test_a_member_that_is_asked_twice_to_end_is_replaced_once(make_group: Make) -> None:
    """SIGTERM names a process, not the place of the member."""
    with make_group(mains.serves) as group, connected(port_of(group, 1)) as client:
        asked(client)
        supervisor = group._supervisor
        assert supervisor is not None
        host = supervisor._hosts[1]
        supervisor.ask_to_replace(host)
        supervisor.ask_to_replace(host)
        while group.members[1].generation == 0:
            pass
        supervisor.ask_to_replace(host)
        client.close()
        group.restart(1)  # after them
        assert group.members[1].generation == 2


def test_a_successor_that_is_never_ready_does_not_keep_other_members_from_being_replaced(make_group: Make) -> None:
    with make_group(mains.serves_once_at_0, drain_timeout=0.0) as group:
        supervisor = group._supervisor
        assert supervisor is not None
        supervisor.ask_to_replace(supervisor._hosts[0])
        supervisor.call(supervisor.restart(1, PATIENCE)).result(PATIENCE)
        assert [each.generation for each in group.members] == [0, 1]


def test_restart_waits_for_the_old_member(make_group: Make) -> None:
    with make_group(mains.serves) as group:
        group.restart(0)
        assert [each.generation for each in group.members] == [1, 0]
        assert group.run_on(0, mains.generation).result(PATIENCE) == 1
        with pytest.raises(UsageError, match="members 0 to 1"):
            group.restart(2)


@pytest.mark.skipif(sys.platform == "win32", reason="processes")
def test_a_killed_process_is_replaced_and_its_port_continues(caplog: pytest.LogCaptureFixture) -> None:
    with LoopGroup(mains.serves, loops=2, kind="processes") as group:
        number = port_of(group)
        with pytest.raises(MemberFailedError):
            group.run_on(1, mains.dies).result(PATIENCE)
        while group.members[1].generation == 0 or group.members[1].state != "running":
            pass
        for _ in range(10):
            with connected(number) as client:
                asked(client)
    assert "member 1 was killed by signal 9; it is restarted" in caplog.text


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="files in memory")
def test_processes_need_no_temporary_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", no_directory)
    with LoopGroup(mains.only_waits, loops=2, kind="processes") as group:
        assert group.stats(PATIENCE).total.responsive


@pytest.mark.skipif(sys.platform == "win32", reason="processes")
def test_without_files_in_memory_a_missing_temporary_directory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.memfd_create", raising=False)
    monkeypatch.setattr("tempfile.TemporaryFile", no_directory)
    with pytest.raises(GroupError, match="set TMPDIR"):
        LoopGroup(mains.only_waits, loops=2, kind="processes").start()


def no_directory() -> None:
    raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")


@pytest.mark.skipif(sys.platform == "win32", reason="processes")
def test_a_blocked_process_is_killed(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopcore.group.supervisor.GRACE", 0.0)
    group = LoopGroup(mains.blocks, loops=2, kind="processes")
    group.start()
    group.drain(timeout=0)
    assert group.exit_code == 1
    assert "did not end in time and was killed" in caplog.text


def test_a_blocked_thread_is_reported(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopcore.group.supervisor.GRACE", 0.0)
    group = LoopGroup(mains.blocks_until_released, loops=2, kind="threads")
    group.start()
    group.drain(timeout=0)
    assert group.exit_code == 1
    assert "is left behind" in caplog.text
    mains.released.set()


def test_a_reset_closes_the_socket_also_where_it_cannot_be_a_reset() -> None:
    class Refusing(socket.socket):
        def setsockopt(self, *arguments: object) -> None:  # type: ignore[override]
            raise OSError(errno.EINVAL, "the client has closed")

    sock = Refusing()
    reset(sock)
    assert sock.fileno() < 0


@pytest.mark.parametrize("number", [errno.ECONNABORTED, errno.ECONNRESET, errno.EPROTO])
async def test_an_error_of_one_connection_does_not_keep_the_next_one_waiting(number: int) -> None:
    class Failing(socket.socket):
        def accept(self) -> NoReturn:
            raise OSError(number, os.strerror(number))

    server = GroupServer(
        asyncio.get_running_loop(),
        [],
        asyncio.Protocol,
        number=0,
        load=Load(LoadTable([0.0] * cells_of(1), 1), 0),
        give=None,
        backlog=1,
        ssl=None,
        timeouts={},
        released=lambda server: None,
    )
    with Failing() as listener:
        assert server._accept_one(listener)


def test_a_connection_is_handed_over_before_its_handshake(make_group: Make, tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    chain = tmp_path / "chain.pem"
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(chain)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with make_group(partial(mains.serves_tls, chain=str(chain))) as group:
        with context.wrap_socket(connected(port_of(group)), server_hostname="localhost") as client:
            asked(client)
        assert group.stats(PATIENCE).total.handed_over == 1


def test_a_handshake_in_progress_does_not_keep_a_group(make_group: Make, tmp_path: Path) -> None:
    trustme = pytest.importorskip("trustme")
    chain = tmp_path / "chain.pem"
    trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(chain)
    group = make_group(partial(mains.serves_tls, chain=str(chain)))
    group.start()
    with connected(port_of(group)) as client:
        while not group.stats(PATIENCE).total.connections:
            pass
        group.drain(timeout=0)
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            pass
    assert group.exit_code == 0
