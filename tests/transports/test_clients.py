"""The list of a server's connections."""

import sys
import threading

from loopcore.transports.clients import Clients


class Kept:
    """Stands for a connection."""


def test_connections_are_listed_while_another_thread_drops_some() -> None:
    """As the collector does, where it runs in a thread of the program."""
    clients = Clients()
    connections = [Kept() for _ in range(1000)]
    for connection in connections:
        clients._attach(connection)
    is_over = threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            dropped = Kept()
            clients._attach(dropped)
            clients._detach(dropped)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        for _ in range(200):
            assert len(clients._transports()) >= len(connections)
    finally:
        is_over.set()
        sys.setswitchinterval(interval)
        other.join()
