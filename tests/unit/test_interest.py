"""Interest bits: distinct, and those of poll(2) on Linux."""

import select

import pytest

from loopcore.ports import interest
from loopcore.ports.interest import ERROR, HANGUP, READ, WRITE, describe


def test_bits_are_distinct():
    assert sorted(interest.NAMES) == [READ, WRITE, ERROR, HANGUP]
    assert READ | WRITE | ERROR | HANGUP == READ + WRITE + ERROR + HANGUP


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="the values are those of Linux")
def test_bits_are_those_of_poll_and_epoll_on_linux():
    assert (select.EPOLLIN, select.EPOLLOUT, select.EPOLLERR, select.EPOLLHUP) == (READ, WRITE, ERROR, HANGUP)
    assert (select.POLLIN, select.POLLOUT, select.POLLERR, select.POLLHUP) == (READ, WRITE, ERROR, HANGUP)


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, "none"),
        (READ, "READ"),
        (READ | WRITE, "READ|WRITE"),
        (HANGUP | READ, "READ|HANGUP"),
        (ERROR, "ERROR"),
        (2, "none"),
    ],
)
def test_describe_names_the_bits(bits, words):
    assert describe(bits) == words
