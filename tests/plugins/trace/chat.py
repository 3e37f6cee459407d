"""The chat example with fifty clients, traced: the program whose trace the manual shows."""

import signal
from contextlib import ExitStack
from pathlib import Path

from tests.examples.programs import Child, Peer, command

CLIENTS = 50
GROUPS = 5


def trace_of_the_chat(folder: Path, backend: str) -> Path:
    """Run the chat server under the trace while fifty clients join groups and post; return the file it leaves."""
    path = folder / "trace.json"
    program = command("chat/server.py", "--port", "0", backend=backend)
    with Child(program, backend, LOOPCORE_PLUGINS=f"trace:file={path}") as server, ExitStack() as stack:
        port = server.port()
        peers = [stack.enter_context(Peer(port)) for _ in range(CLIENTS)]
        for number, peer in enumerate(peers):
            peer.join(f"group {number % GROUPS}", f"client {number}")
        for number, peer in enumerate(peers):
            peer.ask("post", group=f"group {number % GROUPS}", text=f"hello from {number}")
        for peer in peers:
            while peer.receive()["type"] != "message":
                pass
        ended = server.stop(signal.SIGTERM)
    assert ended.code == 0, ended
    return path
