"""Stream handlers annotated with asyncio's classes and with loopcore's. `mypy` checks this module, pytest runs it."""

import asyncio
import inspect
from pathlib import Path
from typing import Any, assert_type

import pytest

import loopcore
from loopcore.streams import declared, protocol, reader, writer


async def echo_asyncio(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    assert isinstance(reader, asyncio.StreamReader)
    assert isinstance(writer, asyncio.StreamWriter)
    writer.write(await reader.readline())
    writer.close()


async def echo_loopcore(reader: loopcore.StreamReader, writer: loopcore.StreamWriter) -> None:
    writer.write(await reader.readuntil((b"\n", b"\r")))
    writer.close()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    writer.write(b"hello\n")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def over_tcp() -> None:
    for server in (
        await loopcore.start_server(echo_asyncio, "127.0.0.1", 0),
        await loopcore.start_server(echo_loopcore, "127.0.0.1", 0),
        await asyncio.start_server(echo_asyncio, "127.0.0.1", 0),
    ):
        assert_type(server, asyncio.Server)
        async with server:
            port: int = server.sockets[0].getsockname()[1]
            ours = await loopcore.open_connection("127.0.0.1", port)
            assert_type(ours, tuple[loopcore.StreamReader, loopcore.StreamWriter])
            assert await ask(*ours) == b"hello\n"
            assert await ask(*await asyncio.open_connection("127.0.0.1", port)) == b"hello\n"


async def over_unix(folder: Path) -> None:
    for path, server in {
        folder / "1": await loopcore.start_unix_server(echo_asyncio, folder / "1"),
        folder / "2": await loopcore.start_unix_server(echo_loopcore, folder / "2"),
        folder / "3": await asyncio.start_unix_server(echo_asyncio, folder / "3"),
    }.items():
        async with server:
            assert await ask(*await loopcore.open_unix_connection(path)) == b"hello\n"


async def refused_by_a_type_checker() -> None:
    """asyncio's server calls with asyncio's classes; strict mypy reports an ignore that is not needed."""
    await asyncio.start_server(echo_loopcore)  # type: ignore[arg-type]
    await loopcore.start_server(ask, path=1)  # type: ignore[arg-type]


def test_handlers_annotated_with_either_class_serve_tcp() -> None:
    loopcore.run(over_tcp())


@pytest.mark.skipif(not hasattr(asyncio, "start_unix_server"), reason="no Unix sockets")
def test_handlers_annotated_with_either_class_serve_unix_sockets(tmp_path: Path) -> None:
    loopcore.run(over_unix(tmp_path))


def test_a_server_is_an_asyncio_server() -> None:
    async def main() -> None:
        async with await loopcore.start_server(echo_asyncio, "127.0.0.1", 0) as server:
            assert isinstance(server, asyncio.Server)

    loopcore.run(main())


def parameters(function: Any) -> list[tuple[str, Any]]:
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.kind) for each in found if each.name != "self"]


@pytest.mark.parametrize(
    ("shown", "real"),
    [
        (declared.StreamReader, reader.StreamReader),
        (declared.StreamWriter, writer.StreamWriter),
        (declared.StreamReaderProtocol, protocol.StreamReaderProtocol),
    ],
)
def test_type_checkers_see_the_methods_that_there_are(shown: type, real: type) -> None:
    """Every public method of asyncio's class is there, and what is declared has the parameters of the real method."""
    public = {name for name in dir(shown) if not name.startswith("_")}
    assert public <= set(dir(real))
    for name, method in vars(shown).items():
        # A compiled method may have no signature that every Python reads; the interpreted class has the same.
        if inspect.isfunction(method) and inspect.isfunction(getattr(real, name)):
            assert parameters(method) == parameters(getattr(real, name)), name
