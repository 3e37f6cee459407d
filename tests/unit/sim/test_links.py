"""Links between simulated hosts: delay, loss, partitions, and what TCP makes of them."""

import asyncio
import errno
import socket
import time

import pytest

from loopcore import sim
from tests.unit.sim.echoing import SERVER, connected, echo, simulated


def test_a_round_trip_takes_what_the_link_takes() -> None:
    async def main() -> float:
        sim.host("server", echo)
        sim.link("main", "server", delays=[0.25])
        reader, writer = await connected()
        begin = time.monotonic()
        writer.write(b"hello")
        assert await reader.read(100) == b"hello"
        writer.close()
        return time.monotonic() - begin

    assert simulated(main) == pytest.approx(0.5, abs=1e-4)


def test_bandwidth_makes_what_is_large_late() -> None:
    async def main() -> float:
        sim.host("server", echo)
        sim.link("main", "server", delays=[0.0], bandwidth=1000.0)
        reader, writer = await connected()
        begin = sim.now()
        writer.write(bytes(2000))
        await reader.readexactly(2000)
        writer.close()
        return sim.now() - begin

    assert simulated(main) == pytest.approx(4.0, abs=1e-3)


def test_loss_delays_a_stream_and_drops_datagrams() -> None:
    async def main() -> tuple[bytes, int]:
        sim.host("server", echo)
        reader, writer = await connected()
        sim.link("main", "server", loss=0.5)
        for number in range(10):
            writer.write(b"%d" % number)
            await asyncio.sleep(0.001)
        data = await reader.readexactly(10)
        writer.close()
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("127.0.0.1", 5000))
        receiver.setblocking(False)
        sim.link("main", "main", loss=0.5)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(100):
                sender.sendto(b"x", ("127.0.0.1", 5000))
        await asyncio.sleep(10)
        count = 0
        with receiver:
            while True:
                try:
                    receiver.recv(10)
                except BlockingIOError:
                    return data, count
                count += 1

    outcome = sim.simulate(main, sim.Tape(seed=3))
    assert outcome.error is None
    assert outcome.result[0] == b"0123456789"
    assert simulated(main)[1] == 100
    assert min(sim.simulate(main, sim.Tape(seed=seed)).result[1] for seed in range(1, 9)) < 100


def test_a_partition_holds_data_back_and_a_heal_delivers_it() -> None:
    async def main() -> float:
        sim.host("server", echo)
        reader, writer = await connected()
        sim.partition(["main"], ["server"])
        writer.write(b"late")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting := asyncio.ensure_future(reader.read(100))), 50)
        sim.heal()
        assert await waiting == b"late"
        writer.close()
        return sim.now()

    assert 50 < simulated(main) < 51


def test_tcp_gives_up_as_linux_does() -> None:
    async def main() -> tuple[int | None, float, int | None, float]:
        sim.host("server", echo)
        reader, writer = await connected()
        sim.partition(["main"], ["server"])
        begin = sim.now()
        writer.write(b"never")
        with pytest.raises(TimeoutError) as lost:
            await reader.read(100)
        writer.close()
        given_up = sim.now() - begin
        begin = sim.now()
        with pytest.raises(TimeoutError) as refused:
            await asyncio.open_connection(*SERVER)
        return lost.value.errno, given_up, refused.value.errno, sim.now() - begin

    assert simulated(main) == (errno.ETIMEDOUT, pytest.approx(924, abs=1), errno.ETIMEDOUT, pytest.approx(127, abs=1))


def test_a_cut_works_in_one_direction() -> None:
    async def main() -> None:
        sim.host("server", echo)
        reader, writer = await connected()
        sim.cut("server", "main")
        writer.write(b"a")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(100), 5)
        writer.close()

    simulated(main)


def test_a_connect_whose_answer_is_cut_off_is_not_accepted() -> None:
    async def main() -> tuple[int | None, float, float]:
        accepted: list[float] = []

        async def listener() -> None:
            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                accepted.append(sim.now())
                writer.close()

            server = await asyncio.start_server(serve, "0.0.0.0", SERVER[1])
            await server.serve_forever()

        sim.host("server", listener)
        await asyncio.sleep(0.1)
        sim.cut("server", "main")
        begin = sim.now()
        with pytest.raises(TimeoutError) as refused:
            await asyncio.open_connection(*SERVER)
        given_up = sim.now() - begin
        begin = sim.now()
        connecting = asyncio.ensure_future(asyncio.open_connection(*SERVER))
        await asyncio.sleep(50)
        assert not accepted
        sim.heal()
        _, writer = await connecting
        writer.close()
        healed = sim.now() - begin
        await asyncio.sleep(1)
        assert len(accepted) == 1
        assert accepted[0] > begin + 50
        return refused.value.errno, given_up, healed

    assert simulated(main) == (errno.ETIMEDOUT, pytest.approx(127, abs=1), pytest.approx(63, abs=1))


def test_a_refusal_that_is_cut_off_is_not_heard() -> None:
    async def main() -> tuple[int | None, float]:
        sim.host("server", lambda: asyncio.sleep(1000))
        sim.cut("server", "main")
        with pytest.raises(TimeoutError) as lost:
            await asyncio.open_connection(*SERVER)
        return lost.value.errno, sim.now()

    assert simulated(main) == (errno.ETIMEDOUT, pytest.approx(127, abs=1))


def test_a_late_answer_does_not_end_the_next_connect() -> None:
    async def main() -> None:
        sim.link("main", "main", delays=[0.1])
        with socket.create_server(("127.0.0.1", 80)) as listener, socket.socket() as client:
            client.setblocking(False)
            assert client.connect_ex(("127.0.0.1", 80)) == errno.EINPROGRESS
            await asyncio.sleep(0.15)
            client.shutdown(socket.SHUT_RDWR)
            assert client.connect_ex(("127.0.0.1", 81)) == errno.EINPROGRESS
            await asyncio.sleep(1)
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
            listener.setblocking(False)
            with pytest.raises(BlockingIOError):
                listener.accept()

    simulated(main)


def test_an_acknowledgement_waits_for_room_in_the_queue_and_is_forgotten_in_the_end() -> None:
    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        listener = socket.create_server(("0.0.0.0", 80), backlog=0)
        listener.setblocking(False)
        sim.link("main", "main", delays=[0.1])
        clients = [socket.socket() for _ in range(3)]
        for client in clients:
            client.setblocking(False)
        await asyncio.gather(*(loop.sock_connect(client, ("127.0.0.1", 80)) for client in clients))
        first, _ = await loop.sock_accept(listener)
        with pytest.raises(BlockingIOError):
            listener.accept()
        await asyncio.sleep(60)
        second, _ = listener.accept()
        await loop.sock_sendall(clients[2], b"forgotten")
        with pytest.raises(ConnectionResetError):
            await loop.sock_recv(clients[2], 10)
        await loop.sock_sendall(clients[1], b"later")
        data = await loop.sock_recv(second, 10)
        for sock in (listener, first, second, *clients):
            sock.close()
        return data

    assert simulated(main) == b"later"


def test_a_listener_that_is_closed_resets_what_it_has_answered() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        listener = socket.create_server(("0.0.0.0", 80))
        sim.link("main", "main", delays=[0.1])
        with socket.socket() as client:
            client.setblocking(False)
            await loop.sock_connect(client, ("127.0.0.1", 80))
            listener.close()
            with pytest.raises(ConnectionResetError):
                await loop.sock_recv(client, 10)

    simulated(main)


@pytest.mark.parametrize("seed", range(1, 9))
def test_what_was_peeked_at_is_received(seed: int) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 80)) as listener, socket.create_connection(("127.0.0.1", 80)) as client:
            server, _ = listener.accept()
            with server:
                client.sendall(bytes(range(10)) * 2)
                shown = server.recv(10, socket.MSG_PEEK)
                assert server.recv(4) == shown[:4]
                assert server.recv(20)[: len(shown) - 4] == shown[4:]

    assert sim.simulate(main, sim.Tape(seed=seed)).error is None


def test_a_machine_without_power_sends_nothing_again() -> None:
    received: list[bytes] = []

    async def collect() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(100):
                received.append(data)

        server = await asyncio.start_server(serve, "0.0.0.0", SERVER[1])
        await server.serve_forever()

    async def client() -> None:
        _, writer = await asyncio.open_connection("server", SERVER[1])
        await asyncio.sleep(1)
        writer.write(b"ghost")
        await asyncio.sleep(100)

    async def main() -> None:
        sim.host("server", collect)
        await asyncio.sleep(0.1)
        machine = sim.host("client", client)
        await asyncio.sleep(0.5)
        sim.partition(["client"], ["server"])
        await asyncio.sleep(1)
        machine.power_cut()
        sim.heal()
        await asyncio.sleep(10)

    simulated(main)
    assert received == []


def test_a_second_partition_is_given_up_after_its_own_time() -> None:
    async def main() -> float:
        sim.host("server", echo)
        reader, writer = await connected()
        sim.partition(["main"], ["server"])
        writer.write(b"one")
        await asyncio.sleep(900)
        sim.heal()
        assert await reader.read(100) == b"one"
        sim.partition(["main"], ["server"])
        begin = sim.now()
        writer.write(b"two")
        with pytest.raises(TimeoutError):
            await reader.read(100)
        writer.close()
        return sim.now() - begin

    assert simulated(main) == pytest.approx(924, abs=1)
