"""The chat client as a program: its standard input is a pipe here, its output and exit code are looked at."""

import signal
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from programs import LIFE, Child, Ended, Peer, command, run


@pytest.fixture(scope="module")
def port(backend_name: str) -> Iterator[int]:
    with Child(command("chat/server.py", "--port", "0", backend=backend_name), backend_name, life=LIFE) as child:
        yield child.port()


def client(port: int, *arguments: str, backend: str, typed: str = "") -> Ended:
    return run("chat/client.py", "--port", str(port), "--name", "ann", *arguments, backend=backend, typed=typed)


def test_piped_input_is_sent_answered_and_shown(backend_name: str, port: int) -> None:
    typed = "hello\n/list\n/nonsense\n/join b\n/post a two words\n/leave a\n/post a gone\n\nlast line without newline"
    ended = client(port, "--group", "a", backend=backend_name, typed=typed)
    lines = ended.out.splitlines()
    assert lines.pop(next(n for n, line in enumerate(lines) if line.startswith("what can be typed"))).endswith(":")
    assert [line for line in lines if not line.startswith("  ")] == [
        "[a] * ann joined",
        "[a] ann: hello",
        "[a] * here: ann",
        "[b] * ann joined",
        "[a] ann: two words",
        "[a] * ann left",
        "! you are not in 'a' (not-joined)",
        "[b] ann: last line without newline",
    ]
    assert (ended.code, ended.err) == (0, "")


def test_messages_of_others_are_shown_while_it_waits_for_input(backend_name: str, port: int) -> None:
    start = command("chat/client.py", "--port", str(port), "--name", "ann", "--group", "talk", backend=backend_name)
    with Child(start, backend_name) as ann, Peer(port) as bob:
        assert ann.line() == "[talk] * ann joined\n"
        bob.join("talk", "bob")
        assert ann.line() == "[talk] * bob joined\n"
        ann.type("hi\n")
        assert bob.receive()["text"] == "hi"
        bob.ask("post", group="talk", text="clear \x1b[2J screen\r\n")
        assert [ann.line(), ann.line()] == ["[talk] ann: hi\n", "[talk] bob: clear �[2J screen��\n"]
        ann.type("/quit\n")
        assert ann.end() == (0, "", "")
        assert bob.receive()["type"] == "message"
        assert bob.receive() == {"type": "left", "group": "talk", "name": "ann"}


def test_more_input_than_is_read_ahead_arrives_in_order(backend_name: str, port: int) -> None:
    typed = "".join(f"line {number}\n" for number in range(300))
    ended = client(port, "--group", "long", backend=backend_name, typed=typed)
    assert ended.out.splitlines()[1:] == [f"[long] ann: line {number}" for number in range(300)]
    assert (ended.code, ended.err) == (0, "")


def test_interrupt_ends_it(backend_name: str, port: int) -> None:
    start = command("chat/client.py", "--port", str(port), "--group", "int", backend=backend_name)
    with Child(start, backend_name) as child:
        child.line()
        ended = child.stop(signal.SIGINT)
    assert (ended.code, ended.err) == (130, "")


def test_no_server_is_an_error(backend_name: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but nobody listens
        ended = client(unused.getsockname()[1], backend=backend_name)
    assert ended.code == 1
    assert ended.err.startswith("cannot connect to 127.0.0.1:")
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("bytes_", "complaint"),
    [(b"", "the server has closed the connection\n"), (b"HTTP/1.1 400\r\n", "connection lost: not-json: ")],
)
def test_server_that_goes_away_or_talks_nonsense_is_an_error(backend_name: str, bytes_: bytes, complaint: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(bytes_)

        thread = threading.Thread(target=answer)
        thread.start()
        start = command(
            "chat/client.py", "--port", str(listener.getsockname()[1]), "--group", "g", backend=backend_name
        )
        with Child(start, backend_name) as child:
            thread.join()
            child.process.wait()  # its standard input is still open: it must not wait for that
            ended = child.end()
    assert ended.code == 1
    assert ended.err.startswith(complaint)


def test_server_that_cuts_the_connection_while_much_is_sent_is_one_error(backend_name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def cut() -> None:
            connection, _ = listener.accept()
            with connection:
                received = 0
                while received < 20_000 and (data := connection.recv(65_536)):
                    received += len(data)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset

        thread = threading.Thread(target=cut)
        thread.start()
        typed = "hello\n" * 100_000
        ended = client(listener.getsockname()[1], "--group", "g", backend=backend_name, typed=typed)
        thread.join()
    assert ended.code == 1
    assert ended.err.startswith(("connection lost: ", "the server has closed the connection"))
    assert len(ended.err.splitlines()) == 1
