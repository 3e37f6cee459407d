"""How the kqueue backend reads an event, and that it knows where it can run; without any kqueue."""

import errno
import select

import pytest

from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE
from loopcore_backends import kqueue

ADD, EOF, FAILED = 0x0001, 0x8000, 0x4000


@pytest.mark.parametrize(
    ("direction", "flags", "fflags", "ready"),
    [
        (READ, ADD, 0, READ),
        (WRITE, ADD, 0, WRITE),
        (READ, ADD | EOF, 0, READ),
        (WRITE, ADD | EOF, 0, WRITE | HANGUP),
        (READ, ADD | EOF, errno.ECONNRESET, READ | ERROR),
        (WRITE, ADD | EOF, errno.ECONNREFUSED, WRITE | HANGUP | ERROR),
        (READ, ADD | FAILED, 0, ERROR),
        (WRITE, FAILED, errno.EBADF, ERROR),
    ],
)
def test_event_is_translated(direction, flags, fflags, ready):
    assert kqueue.ready_for(direction, flags, fflags) == ready


def test_note_without_end_is_no_error():
    assert kqueue.ready_for(READ, ADD, 1) == READ


def test_probe_says_why_it_cannot_run(monkeypatch):
    monkeypatch.delattr(select, "kqueue", raising=False)
    available, reason = kqueue.KqueueBackend.probe()
    assert not available
    assert "macOS" in reason
    assert "use epoll" in reason
