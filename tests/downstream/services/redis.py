"""Redis, as redis-py's suite wants it: a server with TLS, and three sentinels that watch another one.

The sentinels have a server of their own, because they talk through their master: subscriptions that the suite, which
counts all there are, has not made.
"""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import trustme

from tests.downstream.services.packages import MissingServerError, provide

MASTER = "redis-py-test"
"""The name by which the suite asks sentinels for their master."""
SENTINELS = 3
QUORUM = 2
PORT = 6379
"""Redis's own, which some tests of the suite use whatever they are told."""
PATIENCE = 20.0
"""Seconds for a server to answer, and to end."""
CERTIFICATES = {"redis": "localhost", "client": "client", "test_user": "test_user"}
"""What the suite looks for, and the common name of each."""


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """Start the servers on loopback; yield the options that tell the suite where they are; stop them.

    Raises MissingServerError, also if another server, such as the one that the package has started, is in the way.
    """
    program = provide("redis-server", "redis-server")
    try:
        socket.create_server(("127.0.0.1", PORT)).close()
    except OSError as error:
        raise MissingServerError(f"port {PORT} is not free ({error}): stop the Redis that runs already") from error
    # Where the suite looks for them: its folder is a neighbour of `folder`.
    certificates = folder.parent / "dockers" / "standalone" / "tls"
    _issue(certificates)
    with ExitStack() as servers:
        secure, master, *sentinels = _free_ports(2 + SENTINELS)
        servers.enter_context(_server(program, folder / "server", PORT, _with_tls(certificates, secure)))
        servers.enter_context(_server(program, folder / "master", master, ""))
        for port in sentinels:
            watched = f"sentinel monitor {MASTER} 127.0.0.1 {master} {QUORUM}\n"
            servers.enter_context(_server(program, folder / f"sentinel-{port}", port, watched, "--sentinel"))
        addresses = ",".join(f"localhost:{port}" for port in sentinels)
        options = {
            "redis-url": f"redis://localhost:{PORT}/0",
            "redis-ssl-url": f"rediss://localhost:{secure}",
            "sentinels": addresses,
            "master-service": MASTER,
        }
        yield {"PYTEST_ADDOPTS": " ".join(f"--{name}={value}" for name, value in options.items())}


def _issue(folder: Path) -> None:
    """Write an authority and its certificates, by the names that the suite knows."""
    folder.mkdir(parents=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.crt")
    for name, common_name in CERTIFICATES.items():
        # RSA: the suite asks for ciphers by name, and some are of RSA only.
        issued = authority.issue_cert("localhost", common_name=common_name, key_type=trustme.KeyType.RSA)
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.crt")


def _with_tls(certificates: Path, port: int) -> str:
    return (
        f"tls-port {port}\n"
        f"tls-cert-file {certificates}/redis.crt\n"
        f"tls-key-file {certificates}/redis.key\n"
        f"tls-ca-cert-file {certificates}/ca.crt\n"
        "tls-auth-clients optional\n"
        "enable-debug-command yes\n"
        "enable-module-command yes\n"
    )


@contextmanager
def _server(program: Path, folder: Path, port: int, settings: str, *options: str) -> Iterator[None]:
    """Run one server, with files in `folder`, from its first answer on. Raises TimeoutError if it gives none."""
    folder.mkdir(parents=True)
    configuration = folder / "redis.conf"  # a sentinel writes to it
    text = f'port {port}\nbind 127.0.0.1\ndir "{folder}"\nlogfile "{folder}/log"\n{settings}'
    configuration.write_text(text if options else f'{text}save ""\n', encoding="utf-8")
    server = subprocess.Popen([program, configuration, *options], stdin=subprocess.DEVNULL)
    try:
        _wait_for_answer(server, port)
        yield
    finally:
        server.terminate()
        try:
            server.wait(PATIENCE)
        finally:
            server.kill()


def _wait_for_answer(server: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
                connection.sendall(b"PING\r\n")
                if connection.recv(5) == b"+PONG":
                    return
        except ConnectionError:
            pass  # not listening yet
        if server.poll() is not None or time.monotonic() > deadline:
            raise TimeoutError(f"{server.args!r} does not answer; exit code {server.returncode}")
        time.sleep(0.02)


def _free_ports(count: int) -> list[int]:
    """Return ports of the loopback that nobody has now."""
    with ExitStack() as sockets:
        bound = [sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in bound]
