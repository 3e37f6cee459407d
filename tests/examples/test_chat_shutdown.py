"""How the chat server starts and ends: exit codes, signals, and nothing on standard error."""

import signal
import socket

import pytest
from programs import Child, Peer, command, run

SIGNALS = [signal.SIGINT, signal.SIGTERM]


def server(backend: str, *arguments: str) -> Child:
    return Child(command("chat/server.py", "--port", "0", *arguments, backend=backend), backend)


def test_it_says_what_it_runs_on(backend_name: str) -> None:
    with server(backend_name) as child:
        line = child.line()
    assert line.startswith("chat server on 127.0.0.1:")
    if backend_name == "asyncio":
        assert "loop asyncio." in line
    else:
        assert line.endswith(f"loop loopcore.loop.EventLoop ({backend_name})\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_shuts_down_and_clients_are_told(backend_name: str, number: signal.Signals) -> None:
    with server(backend_name) as child:
        port = child.port()
        with Peer(port) as ann, Peer(port) as bob, Peer(port) as idle:
            ann.join("g", "ann")
            bob.join("g", "bob")
            assert ann.receive()["name"] == "bob"
            idle.ask("list", group="g")
            assert idle.error() == "not-joined"
            ended = child.stop(number)
            for peer in (ann, bob, idle):
                assert peer.receive() == {"type": "bye", "reason": "the server is shutting down"}
                assert peer.receive() == {}
        assert ended == (0, "chat server stopped\n", "")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))


def test_member_that_never_reads_cannot_hold_up_the_shutdown(backend_name: str) -> None:
    with server(backend_name) as child:
        port = child.port()
        with Peer(port, receive_buffer=16 * 1024) as slow, Peer(port) as poster:
            slow.join("g", "slow")
            poster.join("g", "poster")
            for _ in range(200):
                poster.ask("post", group="g", text="x" * 8_000)
                assert poster.receive()["type"] == "message"
            assert child.stop(signal.SIGTERM) == (0, "chat server stopped\n", "")
            assert poster.receive()["type"] == "bye"


def test_port_in_use_is_an_error(backend_name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run("chat/server.py", "--port", str(taken.getsockname()[1]), backend=backend_name)
    assert ended.code == 1
    assert ended.err.startswith("cannot listen on 127.0.0.1:")
    assert len(ended.err.splitlines()) == 1


def test_wrong_arguments_are_an_error(backend_name: str) -> None:
    ended = run("chat/server.py", "--keep", "0", backend=backend_name)
    assert ended.code == 2
    assert "--keep" in ended.err
