"""The contextvars that accepted connections see."""

import asyncio
import contextvars
from typing import Any

from tests.transports.recorder import run
from tests.transports.test_server import Counter, connect, serving, until

Loop = asyncio.AbstractEventLoop


def test_connections_are_made_in_copies_of_the_context_that_started_the_server(loop: Loop) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nobody's")
    made: list[Any] = []
    found: list[str] = []

    def factory() -> Any:
        found.append(variable.get())
        variable.set("the last connection's")
        return Counter(made)

    async def main() -> None:
        variable.set("the server's")
        async with serving(factory) as server:
            variable.set("too late")
            for count in (1, 2):
                with await connect(server):
                    await until(lambda count=count: len(made) == count)  # type: ignore[misc]

    run(loop, main())
    assert found == ["the server's", "the server's"]
