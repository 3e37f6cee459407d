"""The types of the calls of a group. `mypy` checks this module, pytest runs it."""

import asyncio
import concurrent.futures
from typing import assert_type

import loopcore

Future = concurrent.futures.Future


def word(number: int) -> str:
    return str(number)


async def word_later(number: int) -> str:
    await asyncio.sleep(0)
    return str(number)


async def greet(reader: loopcore.StreamReader, writer: loopcore.StreamWriter) -> None:
    writer.write(b"hello")
    writer.close()


async def main(member: loopcore.Member) -> None:
    server = await member.start_server(greet, "127.0.0.1", 0)
    assert_type(await member.run_on(0, word, 1), str)
    assert_type(await member.run_on(0, word_later, 2), str)
    server.close()
    await member.draining()


def refused_by_a_type_checker(group: loopcore.LoopGroup) -> None:
    group.run_on(0, word, "1")  # type: ignore[arg-type]
    group.run_on(0, 1)  # type: ignore[call-overload]
    loopcore.LoopGroup(main, kind="thread")  # type: ignore[arg-type]
    loopcore.LoopGroup(main, on_failure="ignore")  # type: ignore[arg-type]


async def refused_in_a_member(member: loopcore.Member) -> None:
    await member.run_on(0, word, "1")  # type: ignore[arg-type]
    await member.start_server(word)  # type: ignore[arg-type]


def test_run_on_returns_what_the_function_returns() -> None:
    group = loopcore.LoopGroup(main, loops=1, kind="threads")
    group.start()
    called = group.run_on(0, word, 1)
    assert_type(called, Future[str])
    awaited = group.run_on(0, word_later, 2)
    assert_type(awaited, Future[str])
    given = group.run_on(0, word_later(3))
    assert_type(given, Future[str])
    assert [called.result(), awaited.result(), given.result()] == ["1", "2", "3"]
    group.drain()
