"""Server, client and load over TLS and over a Unix socket, and the client on a terminal."""

import os
import select
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from programs import LIFE, PATIENCE, Child, command, environment, run

from tests.transports.authority import CA

pty = pytest.importorskip("pty", reason="no terminals here, and no Unix sockets")


class Way(NamedTuple):
    """How clients reach a server."""

    options: tuple[str, ...]
    """Of client and load."""
    child: Child


@pytest.fixture(scope="module", params=["tls", "unix"])
def way(request: pytest.FixtureRequest, backend_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    folder = tmp_path_factory.mktemp("way")
    if request.param == "unix":
        path = str(folder / "chat")
        with Child(command("chat/server.py", "--unix", path, backend=backend_name), backend_name, life=LIFE) as child:
            assert child.line().startswith(f"chat server on {path}, loop ")
            yield Way(("--unix", path), child)
        return
    authority = CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    start = command("chat/server.py", "--port", "0", "--cert", str(folder / "server.pem"), backend=backend_name)
    with Child(start, backend_name, life=LIFE) as child:
        yield Way(("--port", str(child.port()), "--ca", str(folder / "ca.pem")), child)


def test_client_posts_and_has_its_answers(backend_name: str, way: Way) -> None:
    typed = "hello\n/list\n" + "x" * 8_000 + "\n"
    ended = run("chat/client.py", *way.options, "--name", "ann", "--group", "g", backend=backend_name, typed=typed)
    shown = ["[g] * ann joined", "[g] ann: hello", "[g] * here: ann", "[g] ann: " + "x" * 8_000]
    assert (ended.code, ended.out.splitlines(), ended.err) == (0, shown, "")


def test_load_finds_every_post_received_or_reported(backend_name: str, way: Way) -> None:
    size = ("--clients", "8", "--groups", "2", "--slow", "2", "--posts", "60", "--text", "4000")
    ended = run("chat/load.py", *way.options, *size, backend=backend_name)
    assert (ended.code, ended.err) == (0, "")
    assert "reported as missed = 480 = clients x posts\n" in ended.out


def test_certificate_that_is_not_trusted_is_an_error(backend_name: str, way: Way) -> None:
    if "--ca" not in way.options:
        pytest.skip("a Unix socket has no certificate")
    ended = run("chat/client.py", *way.options[:2], "--tls", "--group", "g", backend=backend_name)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("cannot connect to 127.0.0.1:")
    assert "CERTIFICATE_VERIFY_FAILED" in ended.err
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("program", "options", "complaint"),
    [
        ("server", ("--cert", "no such file"), "--cert: no certificate with its key can be read from no such file"),
        ("server", ("--key", "key.pem"), "--key needs --cert"),
        ("client", ("--ca", "no such file"), "--ca: no certificate can be read from no such file"),
        ("client", ("--unix", "x", "--tls"), "--unix: a Unix socket does not leave the machine"),
        ("client", ("--port", "70000"), "--port: 70000 is no port"),
        ("load", ("--clients", "300", "--groups", "1"), "300 members in a group are more than 200"),
        ("load", ("--clients", "10", "--groups", "5", "--slow", "6"), "--slow: 0 to 5"),
    ],
)
def test_wrong_arguments_are_explained(program: str, options: tuple[str, ...], complaint: str) -> None:
    ended = run(f"chat/{program}.py", *options, backend="asyncio")
    assert ended.code == 2
    assert complaint in ended.err


def test_unix_socket_that_nobody_listens_on_is_an_error(tmp_path: Path) -> None:
    ended = run("chat/client.py", "--unix", str(tmp_path / "none"), backend="asyncio")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"cannot connect to {tmp_path / 'none'}: ")


def test_client_on_a_terminal_reads_and_shows_at_once(backend_name: str, way: Way) -> None:
    terminal, inside = pty.openpty()
    start = command("chat/client.py", *way.options, "--name", "ann", "--group", "tty", backend=backend_name)
    try:
        process = subprocess.Popen(start, stdin=inside, stdout=inside, stderr=inside, env=environment(backend_name))
        try:
            wait_for(terminal, b"ann joined")
            other = run("chat/client.py", *way.options, "--name", "bob", "--group", "tty", backend=backend_name)
            assert other.code == 0
            wait_for(terminal, b"bob joined")
            os.write(terminal, b"hello\n")
            wait_for(terminal, b"[tty] ann: hello")
            os.write(terminal, b"\x04")  # Ctrl-D: the end of the input
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(inside)
        os.close(terminal)


def wait_for(terminal: int, text: bytes) -> None:
    """Read what is shown until `text` is."""
    shown = b""
    while text not in shown:
        assert select.select([terminal], [], [], PATIENCE)[0], f"{text!r} was not shown, but {shown!r}"
        shown += os.read(terminal, 1000)
