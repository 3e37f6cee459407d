"""The event loop policy, on Pythons that have one. Each test runs in a process of its own: policies are global."""

import subprocess
import sys

import pytest

HAS_POLICIES = sys.version_info < (3, 16)
DEPRECATED = sys.version_info >= (3, 14)


def run_program(text: str) -> str:
    options = ["-W", "error"] + (["-W", "ignore:'asyncio.:DeprecationWarning"] if DEPRECATED else [])
    done = subprocess.run([sys.executable, *options, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SHOW = "async def main(): print(type(asyncio.get_running_loop()).__module__)\n"


@pytest.mark.skipif(not HAS_POLICIES, reason="no policies from Python 3.16 on")
def test_install_makes_asyncio_run_use_loopcore() -> None:
    program = f"import asyncio, loopcore\n{SHOW}asyncio.run(main())\nloopcore.install()\nasyncio.run(main())"
    assert run_program(program).split() == ["asyncio.unix_events", "loopcore.loop"]


@pytest.mark.skipif(not HAS_POLICIES, reason="no policies from Python 3.16 on")
def test_policy_makes_loops_for_whoever_asks() -> None:
    program = """
import asyncio, loopcore
asyncio.set_event_loop_policy(loopcore.EventLoopPolicy())
loop = asyncio.new_event_loop()
print(type(loop).__name__)
asyncio.set_event_loop(loop)
assert asyncio.get_event_loop_policy().get_event_loop() is loop
loop.close()
"""
    assert run_program(program) == "EventLoop"


@pytest.mark.skipif(not HAS_POLICIES, reason="no policies from Python 3.16 on")
def test_policy_is_one_of_asyncio() -> None:
    program = """
import asyncio, loopcore
print(issubclass(loopcore.EventLoopPolicy, asyncio.AbstractEventLoopPolicy), loopcore.EventLoopPolicy.__name__)
"""
    assert run_program(program) == "True EventLoopPolicy"


def test_importing_loopcore_changes_nothing_global() -> None:
    assert run_program(f"import asyncio, loopcore\n{SHOW}asyncio.run(main())") == "asyncio.unix_events"


@pytest.mark.skipif(HAS_POLICIES, reason="this Python has policies")
def test_without_policies_install_says_what_to_use() -> None:
    import loopcore

    assert loopcore.EventLoopPolicy is None
    with pytest.raises(AttributeError, match=r"use loopcore\.run\(\)"):
        loopcore.install()
