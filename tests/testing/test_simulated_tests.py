"""`pytest --loopcore-sim`, from outside: races of unmodified tests are found, shrunk, reported once and replayed."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loopcore.sim import Tape

Run = Callable[..., str]

RACE = """
import asyncio
import os
import subprocess
import sys
import time
import unittest
import warnings

import pytest


async def two_clients_of_one_server():
    got = []

    async def serve(reader, writer):
        got.append(await reader.readline())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)

    async def send(data):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(data)
        await reader.read()
        writer.close()

    async with server:
        await asyncio.gather(send(b"first\\n"), send(b"second\\n"))
    return got


async def race():
    assert await two_clients_of_one_server() == [b"first\\n", b"second\\n"]


async def no_race():
    assert sorted(await two_clients_of_one_server()) == [b"first\\n", b"second\\n"]
"""
# A kind of test: the plugin that it needs, and its text with the name of a coroutine left out.
KINDS = {
    "run": ("", "def test_it():\n    asyncio.run({}())"),
    "runner": ("", "def test_it():\n    with asyncio.Runner() as runner:\n        runner.run({}())"),
    "loopcore": ("", "def test_it():\n    import loopcore\n\n    loopcore.run({}())"),
    "loop class": (
        "",
        "def test_it():\n    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as it:\n        it.run({}())",
    ),
    "unittest": (
        "",
        "class TestIt(unittest.IsolatedAsyncioTestCase):\n    async def test_it(self):\n        await {}()",
    ),
    "asyncio-strict": ("pytest_asyncio.plugin", "@pytest.mark.asyncio\nasync def test_it():\n    await {}()"),
    "asyncio-auto": ("pytest_asyncio.plugin", "async def test_it():\n    await {}()"),
    "asyncio-session": (
        "pytest_asyncio.plugin",
        "@pytest.mark.asyncio(loop_scope='session')\nasync def test_it():\n    await {}()",
    ),
}
KINDS["policy"] = (
    "",
    """
def test_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loop = asyncio.get_event_loop_policy().new_event_loop()
    loop.run_until_complete({}())
    loop.close()
""",
)
KINDS["anyio"] = (
    "anyio.pytest_plugin",
    """
@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_it():
    await {}()
""",
)
OTHERS = """
@pytest.fixture(scope="module")
def module_loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize("seconds", [3000])
def test_simulated_time(seconds, tmp_path, module_loop):
    before = time.time()
    module_loop.run_until_complete(asyncio.sleep(seconds))
    assert time.time() >= before + seconds
    (tmp_path / "file").write_text("text")


def test_process():
    subprocess.run([sys.executable, "-c", ""])


def test_process_is_optional():
    with pytest.raises(RuntimeError, match="not simulated"):
        subprocess.run([sys.executable, "-c", ""])


def test_deadlock():
    asyncio.run(asyncio.Event().wait())


def test_skipped():
    pytest.skip("no")
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs pytest in a new process on a file with `program`, and returns what it prints."""

    def run_pytest(program: str, *options: str, hash_seed: str = "random") -> str:
        (tmp_path / "test_it.py").write_text(program, encoding="utf-8")
        (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-p", "loopcore_pytest", "-p", "no:cacheprovider", "--tb=line"]
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        variables = {name: value for name, value in os.environ.items() if not name.startswith(("LOOPCORE_", "PYTEST_"))}
        variables |= {"PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONHASHSEED": hash_seed}
        ended = subprocess.run(
            [*command, *options], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False, env=variables
        )
        return ended.stdout + ended.stderr

    return run_pytest


def of_kind(kind: str, coroutine: str) -> tuple[str, list[str]]:
    """A test of `kind` with a coroutine of RACE, and the options that it needs. Skips where its plugin is missing."""
    plugin, test = KINDS[kind]
    options = []
    if plugin:
        if importlib.util.find_spec(plugin.partition(".")[0]) is None:
            pytest.skip(f"{plugin} is not installed")
        options = ["-p", plugin]
    if plugin == "pytest_asyncio.plugin":
        options += ["-o", f"asyncio_mode={'auto' if kind == 'asyncio-auto' else 'strict'}"]
        options += ["-o", "asyncio_default_fixture_loop_scope=function"]
    return RACE + test.format(coroutine) + "\n", options


@pytest.mark.parametrize("kind", KINDS)
def test_race_is_found_and_replayed_in_a_new_process(kind: str, run: Run) -> None:
    program, options = of_kind(kind, "race")
    said = run(program, *options, "--loopcore-sim")
    (line,) = re.findall(r"loopcore-sim: failed with .*", said)
    found = re.fullmatch(
        r"loopcore-sim: failed with seed (\d+) \(after \1 that passed\): pytest (.+) (--.+) (\S+)", line
    )
    assert found, said
    seed, test, option, token = found.groups()
    assert int(seed) > 0
    assert f"loopcore-sim: 1 test, {int(seed) + 1} schedules, " in said
    assert "1 of " in said  # shrunk to one choice
    assert "1 failed" in said

    again = run(program, *options, test.strip("'"), option, token)
    assert f"replayed with seed {seed}" in again
    assert "this is not the run of the token" not in again
    assert "1 failed" in again


@pytest.mark.parametrize("kind", KINDS)
def test_clean_test_passes_on_every_schedule(kind: str, run: Run) -> None:
    program, options = of_kind(kind, "no_race")
    said = run(program, *options, "--loopcore-sim", "--seeds", "7")
    assert "loopcore-sim: 1 test, 7 schedules, " in said
    assert "1 passed" in said


def test_one_simulation_has_time_folders_and_wider_fixtures(run: Run) -> None:
    said = run(RACE + OTHERS, "--loopcore-sim", "-k", "simulated_time", "-rA")
    assert "1 passed" in said
    assert "loopcore-sim: 1 test, 1 schedule, 3,000.0 simulated seconds, 0 refused" in said  # it makes no choice


def test_what_is_not_simulated_is_skipped_and_counted(run: Run) -> None:
    said = run(RACE + OTHERS, "--loopcore-sim", "-k", "process or skipped", "-rs")
    assert "1 passed, 2 skipped" in said
    assert "loopcore-sim: 3 tests, 3 schedules, 0.0 simulated seconds, 1 refused" in said
    assert "refused: subprocess.Popen(" in said
    assert "Exception ignored" not in said


REFUSALS = """
async def start_process():
    await asyncio.create_subprocess_exec(sys.executable, "-c", "")


def test_caught():
    try:
        subprocess.run([sys.executable, "-c", ""])
    except RuntimeError:
        pass
    assert 1 == 2


def test_cause():
    try:
        subprocess.run([sys.executable, "-c", ""])
    except RuntimeError as exc:
        error = exc
    raise ValueError from error


def test_context():
    try:
        subprocess.run([sys.executable, "-c", ""])
    except RuntimeError:
        assert 1 == 2


def test_group():
    async def main():
        async with asyncio.TaskGroup() as group:
            group.create_task(start_process())

    asyncio.run(main())
"""


def test_failure_that_a_refusal_did_not_cause_is_a_failure(run: Run) -> None:
    said = run(RACE + REFUSALS, "--loopcore-sim", "-rs", "--tb=short")
    assert "1 failed, 3 skipped" in said
    assert " 3 refused" in said
    assert "assert 1 == 2" in said
    _, _, listed = said.partition("calls that are not simulated, and whose error the test or a library caught:\n")
    assert listed.startswith("  - subprocess.Popen(")
    token = re.findall(r"--loopcore-sim-replay (\S+)", said)[0]
    again = run(RACE + REFUSALS, "test_it.py::test_caught", "--loopcore-sim-replay", token, "--tb=short")
    assert "1 failed" in again
    assert "  - subprocess.Popen(" in again


def test_changes_are_left_out_by_label_when_positions_move(run: Run) -> None:
    program = (
        "from loopcore import sim\n\ndef test_it():\n    answers = []\n    for number in range(100):\n"
        "        for _ in range(5 * sim.choose(2, f'noise: {number}')):\n            sim.choose(2, 'more')\n"
        "        answers.append(sim.choose(2, f'fault: {number}'))\n    assert not (answers[30] and answers[60])\n"
    )
    said = run(program, "--loopcore-sim", "--seeds", "100", "--tb=short")
    assert "2 of 200 choices differ from asyncio's own order:\n  - fault: 30\n  - fault: 60\n" in said


WAKES = """
import asyncio


async def wakes():
    event, order = asyncio.Event(), []

    async def wait(name):
        await event.wait()
        order.append(name)

    tasks = [asyncio.create_task(wait(name)) for name in ("first", "second")]
    await asyncio.sleep(0)
    event.set()
    await asyncio.gather(*tasks)
    assert order == ["first", "second"]


async def callbacks():
    order = []
    for name in ("first", "second"):
        asyncio.get_running_loop().call_soon(order.append, name)
    await asyncio.sleep(0.1)
    assert order == ["first", "second"]


def test_wakes():
    asyncio.run(wakes())


def test_callbacks():
    asyncio.run(callbacks())
"""


@pytest.mark.parametrize(
    ("level", "outcome"), [("io", "2 passed"), ("wake", "1 failed, 1 passed"), ("all", "2 failed")]
)
def test_the_level_says_which_orders_are_tried(level: str, outcome: str, run: Run) -> None:
    said = run(WAKES, "--loopcore-sim", "--seeds", "100", "--loopcore-sim-level", level)
    assert outcome in said
    for test, token in re.findall(r"pytest (\S+) --loopcore-sim-replay (\S+)", said):
        again = run(WAKES, test, "--loopcore-sim-replay", token)  # the token has the level
        assert "1 failed" in again
        assert "this is not the run of the token" not in again


PARTS = """
import asyncio
import socket


async def received(receive, sent=b"0123456789"):
    async def serve(reader, writer):
        writer.write(sent)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            return await receive(reader)
        finally:
            writer.close()


def test_one_read_is_a_message():
    assert asyncio.run(received(lambda reader: reader.read(10))) == b"0123456789"


def test_reads_until_the_message_is_whole():
    assert asyncio.run(received(lambda reader: reader.readexactly(10))) == b"0123456789"


def sent(send):
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as sock:
        sock.setblocking(False)
        receiver, _ = listener.accept()
        send(sock, b"0123456789")
        sock.shutdown(socket.SHUT_WR)
        with receiver:
            return b"".join(iter(lambda: receiver.recv(100), b""))


def send_all(sock, data):
    while data:
        data = data[sock.send(data) :]


def test_one_send_takes_all():
    assert sent(lambda sock, data: sock.send(data)) == b"0123456789"


def test_sends_until_all_is_taken():
    assert sent(send_all) == b"0123456789"
"""


def test_program_that_takes_one_read_or_send_for_a_message_is_found(run: Run) -> None:
    said = run(PARTS, "--loopcore-sim", "--seeds", "200", "-rA", "--tb=short")
    assert sorted(re.findall("^PASSED .*::(.*)", said, re.MULTILINE)) == [
        "test_reads_until_the_message_is_whole",
        "test_sends_until_all_is_taken",
    ]
    assert sorted(re.findall("^FAILED .*::(\\w+)", said, re.MULTILINE)) == [
        "test_one_read_is_a_message",
        "test_one_send_takes_all",
    ]
    assert "differ from asyncio's own order:\n  - split: '0123456789' from main to main: " in said
    assert "differ from asyncio's own order:\n  - short write from main to main: " in said
    replays = re.findall(r"pytest (\S+) --loopcore-sim-replay (\S+)", said)
    assert len(replays) == 2
    for test, token in replays:
        assert "1 failed" in run(PARTS, test, "--loopcore-sim-replay", token)


ITSELF = """
from loopcore import sim


async def answer():
    return 42


def test_runs_a_simulation():
    assert sim.run(answer) == 42


def test_fails_in_a_simulation():
    assert sim.run(answer) == 43
"""


def test_test_that_simulates_itself_runs_as_without_the_option(run: Run) -> None:
    said = run(RACE + ITSELF + KINDS["run"][1].format("no_race"), "--loopcore-sim", "--seeds", "3", "--tb=short")
    assert "1 failed, 2 passed" in said
    assert "assert 42 == 43" in said
    assert "loopcore-sim: 3 tests, 5 schedules, " in said
    assert "loopcore-sim: 2 of them ran as without the option: they start simulations themselves" in said
    assert "simulations do not nest" not in said


def test_failure_in_asyncios_own_order_says_so(run: Run) -> None:
    said = run(RACE + OTHERS, "--loopcore-sim", "-k", "deadlock", "--tb=short")
    assert "loopcore-sim: failed with seed 0, asyncio's own order; no other schedule is needed: pytest " in said
    assert "DeadlockError" in said


def test_workers_of_xdist_find_the_same(run: Run) -> None:
    program = RACE + "".join(KINDS[kind][1].format("race").replace("test_it", f"test_{kind}") + "\n"
                             for kind in ("run", "runner"))  # fmt: skip
    alone = run(program, "--loopcore-sim")
    spread = run(program, "--loopcore-sim", "-p", "xdist", "-n", "2")
    pattern = r"loopcore-sim: (?:failed|\d).*"
    assert len(re.findall(pattern, alone)) == 3
    assert sorted(re.findall(pattern, spread)) == sorted(re.findall(pattern, alone))


@pytest.mark.parametrize("only", ["false", "true"])
def test_timer_of_pytest_timeout_measures_real_time(only: str, run: Run) -> None:
    if importlib.util.find_spec("pytest_timeout") is None:
        pytest.skip("pytest_timeout is not installed")
    program = RACE + (
        "async def spin():\n    await asyncio.sleep(60)\n    while True:\n        pass\n\n"
        "def test_spins():\n    asyncio.run(spin())\n\n"
        "def test_sleeps():\n    asyncio.run(asyncio.sleep(60))\n"
    )
    said = run(program, "--loopcore-sim", "-p", "pytest_timeout", "--timeout=3", "-o", f"timeout_func_only={only}")
    assert "Timeout (>3.0s) from pytest-timeout" in said
    assert "1 failed, 1 passed" in said


def test_replay_of_another_run_fails_although_the_test_passes(run: Run) -> None:
    program = "from loopcore import sim\n\ndef test_it():\n    assert not sim.choose({}, {!r})\n"
    said = run(program.format(2, "it breaks"), "--loopcore-sim", "--seeds", "50")
    (token,) = re.findall(r"--loopcore-sim-replay (\S+)", said)
    assert "1 failed" in run(program.format(2, "it breaks"), "--loopcore-sim-replay", token)
    changed = run("def test_it():\n    pass\n", "--loopcore-sim-replay", token, "--tb=short")
    assert "1 error" in changed or "1 failed" in changed, changed
    assert "this is not the run of the token: the run ended after 0 choices" in changed


def test_replay_refuses_several_tests_and_other_words(run: Run) -> None:
    token = Tape(seed=3).token()
    said = run(RACE + OTHERS, "--loopcore-sim-replay", token)
    assert "--loopcore-sim-replay runs one test, these are 5; name it: pytest PATH::TEST" in said
    assert "'nonsense' is not a replay token" in run(RACE + OTHERS, "--loopcore-sim-replay", "nonsense")
    assert "--seeds is 1 or more, this is 0" in run(RACE + OTHERS, "--loopcore-sim", "--seeds", "0")


def test_nothing_of_loopcore_is_imported_without_the_option(run: Run) -> None:
    program = (
        "import sys\n\ndef test_it():\n"
        "    assert not [name for name in sys.modules if name.split('.')[0] in ('loopcore', 'loopcore_backends')]\n"
    )
    assert "1 passed" in run(program)
    assert "1 failed" in run(program, "--loopcore-sim", "--seeds", "1")
