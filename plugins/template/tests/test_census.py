"""The plugin works by the name and with the options that users give."""

import asyncio
import logging

import pytest
from loopcore_plugin_template import Census

import loopcore


async def work() -> None:
    await asyncio.sleep(0)


async def main() -> None:
    await asyncio.gather(work(), work(), work())


def test_it_is_found_by_its_name_and_takes_options(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "loopcore_plugin_template"):
        loopcore.run(main(), plugins="template:top=1,level=DEBUG")
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG
    assert "4 tasks at once; 3 of work" in record.getMessage()


def test_tasks_are_counted_by_their_coroutine() -> None:
    census = Census()
    loopcore.run(main(), plugins=[census])
    assert census.seen["work"] == 3
    assert census.seen["main"] == 1
    assert census.alive == 0
    assert census.most_alive == 4


def test_it_may_come_late_and_leave_early() -> None:
    census = Census()

    async def visited() -> None:
        probes = loopcore.get_running_loop().probes
        probes.register(census)
        await main()
        probes.unregister(census)
        await main()

    loopcore.run(visited())
    assert census.seen == {"work": 3}


def test_a_wrong_option_is_an_error_that_says_what_is_right() -> None:
    with pytest.raises(loopcore.UsageError, match="INFO"):
        loopcore.new_event_loop(plugins="template:level=LOUD")
