"""Tests of streams have a limit of time."""

import asyncio

import pytest

from tests.coroutines import Run, bounded


@pytest.fixture
def run(loop: asyncio.AbstractEventLoop) -> Run:
    return lambda test: loop.run_until_complete(bounded(test))
