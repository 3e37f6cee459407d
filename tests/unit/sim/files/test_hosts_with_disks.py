"""Programs on hosts whose power is cut: the disk that they find after the restart."""

import asyncio
import os
from pathlib import Path

import pytest

import loopcore.files
from loopcore import sim

ENTRIES = Path("/sim/store")


class Store:
    """A counter in a file. It answers only once the value is on the disk, or so its author thinks."""

    def __init__(self, *, sync: bool) -> None:
        self.sync = sync

    async def serve(self) -> None:
        server = await asyncio.start_server(self.answer, "0.0.0.0", 7000)
        await server.serve_forever()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            value = int(ENTRIES.read_text() or "0") if ENTRIES.exists() else 0
            if await reader.readline() == b"add\n":
                value += 1
                self.write(str(value))
            writer.write(b"%d\n" % value)
            await writer.drain()
        finally:
            writer.close()

    def write(self, text: str) -> None:
        new = ENTRIES.with_suffix(".new")
        with open(new, "w") as file:
            file.write(text)
            if self.sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(new, ENTRIES)
        if self.sync:
            folder = os.open("/sim", os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)


async def ask(line: bytes) -> int:
    while True:
        try:
            reader, writer = await asyncio.open_connection("10.0.0.2", 7000)
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
            continue
        writer.write(line)
        answer = await reader.readline()
        writer.close()
        return int(answer)


def program(*, sync: bool, cut: bool):
    async def main() -> None:
        db = sim.host("db", Store(sync=sync).serve)
        for _ in range(3):
            seen = await ask(b"add\n")
        assert seen == 3
        if cut:
            db.power_cut()
        else:
            db.crash()
        db.restart()
        assert await ask(b"get\n") == 3

    return main


def failures(main, seeds: int) -> list[int]:
    found = []
    for seed in range(seeds):
        try:
            sim.run(main, seed=seed)
        except (AssertionError, ValueError):
            found.append(seed)
    return found


def test_a_store_that_syncs_file_and_folder_survives_power_cuts():
    assert failures(program(sync=True, cut=True), 40) == []


def test_a_store_that_does_not_sync_loses_what_it_has_confirmed():
    assert failures(program(sync=False, cut=True), 40) != []


def test_the_end_of_a_process_loses_nothing_that_was_written():
    assert failures(program(sync=False, cut=False), 20) == []


def test_files_of_loopcore_are_operations_of_the_port():
    async def main() -> tuple[bytes, int]:
        async with loopcore.files.open("/sim/file", "wb") as file:
            await asyncio.gather(*(file.write(b"%d" % i * 1_000) for i in range(3)))
            await file.fsync()
        async with loopcore.files.open("/sim/file", "rb") as file:
            return await file.read(3), (await loopcore.files.stat("/sim/file")).st_size

    assert sim.run(main) == (b"000", 3_000)
    with pytest.raises(FileNotFoundError):
        sim.run(lambda: loopcore.files.read_bytes("/sim/none"))


def test_the_name_of_a_unix_socket_is_a_file():
    async def main() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.read(5))
            writer.close()

        server = await asyncio.start_unix_server(answer, "/sim/socket")
        reader, writer = await asyncio.open_unix_connection("/sim/socket")
        writer.write(b"hello")
        assert await reader.read() == b"hello"
        writer.close()
        assert Path("/sim/socket").is_socket()
        server.close()
        await server.wait_closed()
        Path("/sim/socket").unlink(missing_ok=True)
        with pytest.raises(FileNotFoundError):
            await asyncio.open_unix_connection("/sim/socket")

    sim.run(main)
