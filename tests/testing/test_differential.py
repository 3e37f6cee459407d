"""The differential runner: where two loops do the same it returns the log, and where not it says what differs."""

import asyncio
import socket

import pytest

from loopcore.testing.differential import Disagreement, Log, agree, record


async def echo(log: Log) -> str:
    loop = asyncio.get_running_loop()
    one, other = socket.socketpair()
    for end in (one, other):
        end.setblocking(False)
    loop.call_soon(log, "soon")
    loop.call_later(0, log, "later")
    await loop.sock_sendall(one, b"word")
    log(f"came: {await loop.sock_recv(other, 10)!r}")
    one.close()
    log(f"ended: {await loop.sock_recv(other, 10)!r}")
    other.close()
    await asyncio.sleep(0.001)
    return "done"


async def failing(log: Log) -> None:
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await asyncio.sleep(0)
    raise LookupError("as planned")


@pytest.mark.loopcore_only
def test_backend_agrees_with_asyncio(backend_name: str) -> None:
    log = agree(echo, backend_name, asyncio.SelectorEventLoop)
    assert log[-1] == "returned: 'done'"
    assert "came: b'word'" in log


def test_what_is_raised_and_reported_is_compared() -> None:
    log = agree(failing, "select", asyncio.SelectorEventLoop)
    assert log[-1] == "raised: LookupError('as planned')"
    assert any(line.startswith("reported: ") and "ZeroDivisionError" in line for line in log)


def test_difference_is_shown() -> None:
    async def telling(log: Log) -> None:
        log(type(asyncio.get_running_loop()).__module__.partition(".")[0])

    with pytest.raises(Disagreement, match=r"telling differs:(?s:.*)\n-loopcore\n\+asyncio"):
        agree(telling, "select", asyncio.SelectorEventLoop)
    assert record(telling, "select")[0] == "loopcore"
