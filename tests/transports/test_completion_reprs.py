"""What debug mode and plugins show of a connection over a completion port: `repr` of the driver and of its receiver."""

import asyncio
from typing import Any

import pytest

from loopcore.ports.operations import Receive, ReceiveFrom
from tests.transports.recorder import Recorder, settle, unix_pair
from tests.transports.scripted import ScriptedPort, scripted_fixtures

port, loop, run = scripted_fixtures()


class Echo(asyncio.DatagramProtocol):
    pass


async def open_stream(loop: Any) -> tuple[Any, Any]:
    near, far = unix_pair()
    transport, _ = await loop.connect_accepted_socket(Recorder, near)
    return transport, far


async def open_datagram(loop: Any) -> tuple[Any, Any]:
    transport, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
    return transport, None


@pytest.mark.parametrize(
    ("connect", "operation", "driver_name", "protocol_name"),
    [
        (open_stream, Receive, "CompletionDriver", "Recorder"),
        (open_datagram, ReceiveFrom, "CompletionDatagramDriver", "Echo"),
    ],
)
async def test_driver_and_receiver_name_transport_and_protocol_until_closed(
    loop: Any, port: ScriptedPort, connect: Any, operation: type, driver_name: str, protocol_name: str
) -> None:
    transport, peer = await connect(loop)
    await settle()
    driver, receiver = transport._driver, port.only(operation).target
    assert f"{type(transport).__name__} fd={transport.get_extra_info('socket').fileno()}" in repr(transport)
    assert repr(driver) == f"<{driver_name} of {transport!r} for {protocol_name}>"
    assert repr(receiver) == f"<MultishotReceiver of {driver!r}>"
    transport.abort()
    await settle()
    assert repr(driver) == f"<{driver_name} closed>"
    assert repr(receiver) == "<MultishotReceiver closed>"
    port.end_cancelled()
    await settle()
    if peer is not None:
        peer.close()
