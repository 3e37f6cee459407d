"""A server on several loops counts on each, adds up, and ends with its requests answered."""

import http.client
import json
import signal
import sys

import pytest
from programs import PATIENCE, Child, command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM")


def asked(client: http.client.HTTPConnection, path: str) -> dict[str, int]:
    client.request("GET", path)
    with client.getresponse() as response:
        answer: dict[str, int] = json.loads(response.read())
    return answer


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_the_loops_count_and_add_up(kind: str) -> None:
    with Child(command("group/server.py", "0", "2", kind, backend="asyncio"), "asyncio") as server:
        lines = sorted(server.line().split() for _ in range(2))
        assert [line[1] for line in lines] == ["0", "1"]
        (port,) = {int(line[len(line) - 1]) for line in lines}
        clients = [http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE) for _ in range(4)]
        counts = {0: 0, 1: 0}
        for client in clients * 3:
            answer = asked(client, "/")
            counts[answer["member"]] += 1
            assert answer["served"] == counts[answer["member"]]
        assert asked(clients[0], "/total") == {"total": 13}  # this request included
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0  # although the clients keep their connections
        for client in clients:
            client.close()
