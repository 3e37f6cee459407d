"""Logs of simulations that the tests of reports share."""

import random

from loopcore.sim.log import LogEntry

RACE = [
    LogEntry(0.0, "client", "connect", "port 6379", "server"),
    LogEntry(0.0, "client", "send", "GET foo", "server", 1),
    LogEntry(0.01, "server", "arrive", "GET foo", "client", 1),
    LogEntry(0.01, "server", "send", "val-foo", "client", 2),
    LogEntry(0.012, "client", "cancel", "GET foo"),
    LogEntry(0.012, "client", "send", "GET bar", "server", 3),
    LogEntry(0.02, "client", "arrive", "val-foo", "server", 2),
    LogEntry(0.022, "client", "note", "asked bar, got val-foo"),
    LogEntry(0.03, "server", "crash", "power cut"),
    LogEntry(0.04, "client", "timer", "retry"),
    LogEntry(0.06, "server", "restart", ""),
    LogEntry(0.07, "client", "timer", "retry"),
]
"""A reply arrives after the cancellation of its command; a message is lost; a host crashes."""


def random_log(seed: int, hosts: int, entries: int = 60) -> list[LogEntry]:
    """Return a log in which messages overtake each other, get lost and arrive twice."""
    stream = random.Random(seed)
    names = [f"node-{number}" for number in range(hosts)]
    log: list[LogEntry] = []
    flying: list[LogEntry] = []
    when = 0.0
    for flow in range(1, entries):
        when += stream.choice([0.0, 0.0, 0.001, 0.5])
        if flying and stream.random() < 0.5:
            sent = flying[-1] if stream.random() < 0.1 else flying.pop(stream.randrange(len(flying)))
            log.append(LogEntry(when, sent.peer, "arrive", sent.text, sent.host, sent.flow))
        elif stream.random() < 0.2:
            log.append(LogEntry(when, stream.choice(names), stream.choice(["crash", "restart", "note"]), "x" * flow))
        else:
            host, peer = stream.choice(names), stream.choice(names)
            log.append(LogEntry(when, host, "send", f"message {flow}" + "!" * stream.choice([0, 150]), peer, flow))
            flying.append(log[-1])
    return log
