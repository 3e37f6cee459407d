"""What is asked of the resolver: getaddrinfo's parameters, and what endpoints hand on to it."""

import asyncio
import socket
from typing import Any

import pytest

from tests.transports.recorder import settle

Loop = asyncio.AbstractEventLoop


@pytest.fixture
def questions(loop: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the loop's resolver is asked, beside host and port; it is asked all the same."""
    asked: list[dict[str, Any]] = []
    resolve = loop.getaddrinfo

    async def ask(host: Any, port: Any, **question: Any) -> Any:
        asked.append(question)
        return await resolve(host, port, **question)

    monkeypatch.setattr(loop, "getaddrinfo", ask)
    return asked


@pytest.mark.covers("EventLoop.getaddrinfo(family, type, proto, flags)")
@pytest.mark.parametrize(
    "question",
    [
        {"family": socket.AF_INET, "type": 0, "proto": 0, "flags": 0},
        {"family": socket.AF_INET6, "type": 0, "proto": 0, "flags": socket.AI_V4MAPPED},
        {"family": 0, "type": socket.SOCK_DGRAM, "proto": 0, "flags": 0},
        {"family": 0, "type": 0, "proto": socket.IPPROTO_TCP, "flags": 0},
        {"family": 0, "type": 0, "proto": 0, "flags": socket.AI_CANONNAME | socket.AI_NUMERICHOST},
    ],
    ids=["IPv4", "IPv6", "datagrams", "TCP", "flags"],
)
def test_the_answer_is_the_systems(loop: Loop, question: dict[str, int]) -> None:
    answer = loop.run_until_complete(loop.getaddrinfo("127.0.0.1", 80, **question))
    assert answer == socket.getaddrinfo("127.0.0.1", 80, **question)


@pytest.mark.covers("EventLoop.create_connection(family, proto, flags)")
async def test_a_connection_passes_its_arguments_to_getaddrinfo(loop: Loop, questions: list[dict[str, Any]]) -> None:
    wanted = {"family": socket.AF_INET, "proto": socket.IPPROTO_TCP, "flags": socket.AI_ADDRCONFIG}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        transport, _ = await loop.create_connection(asyncio.Protocol, "localhost", port, **wanted)
        assert transport.get_extra_info("peername") == ("127.0.0.1", port)
        transport.close()
        await settle()
    assert questions == [{**wanted, "type": socket.SOCK_STREAM}]


@pytest.mark.covers("EventLoop.create_server(family, flags)")
async def test_a_server_passes_its_arguments_to_getaddrinfo(loop: Loop, questions: list[dict[str, Any]]) -> None:
    wanted = {"family": socket.AF_INET, "flags": socket.AI_PASSIVE | socket.AI_ADDRCONFIG}
    server = await loop.create_server(asyncio.Protocol, "localhost", 0, **wanted)
    server.close()
    await server.wait_closed()
    (question,) = questions
    assert {name: question[name] for name in wanted} == wanted


@pytest.mark.covers("EventLoop.create_datagram_endpoint(local_addr, family, proto, flags)")
async def test_a_datagram_endpoint_passes_its_arguments_to_getaddrinfo(
    loop: Loop, questions: list[dict[str, Any]]
) -> None:
    wanted = {"family": socket.AF_INET, "proto": socket.IPPROTO_UDP, "flags": socket.AI_PASSIVE}
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("localhost", 0), **wanted)
    assert transport.get_extra_info("socket").family == socket.AF_INET
    transport.close()
    await settle()
    assert questions == [{**wanted, "type": socket.SOCK_DGRAM}]
