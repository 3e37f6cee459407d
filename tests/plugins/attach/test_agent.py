"""The agent in this process, which takes no attaching."""

import asyncio
import importlib.resources
import os
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = [pytest.mark.loopcore_only, pytest.mark.skipif(sys.platform != "linux", reason="SO_PEERCRED")]

PATIENCE = 30.0


def agent_globals() -> dict[str, Any]:
    """Return the globals of an agent, as in the process under inspection."""
    text = importlib.resources.files("loopcore_plugins.attach").joinpath("agent.py").read_text(encoding="utf-8")
    space: dict[str, Any] = {"__name__": "loopcore_attach", "__builtins__": __builtins__}
    exec(compile(text, "<loopcore attach>", "exec", dont_inherit=True), space)
    return space


def test_a_blocked_loop_is_recorded_and_loses_the_recorder_when_it_is_free_again(
    loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path has at most 107 bytes
    space, left, answers = agent_globals(), threading.Event(), []
    Path("folder").mkdir()
    status = Path("folder").stat()
    identity = (status.st_dev, status.st_ino)
    before = list(loop.probes.plugins())

    def block_the_loop(sock: Any, seconds: float) -> None:
        assert len(loop.probes.plugins()) == len(before) + 1
        loop.call_soon_threadsafe(left.wait, PATIENCE)

    def command() -> None:
        agent = threading.Thread(
            target=space["run"], args=("socket", "folder", identity, os.geteuid(), loop, main_thread)
        )
        agent.start()
        sock, _ = listener.accept()
        with sock:
            sock.sendall(f"record 1 0 {tmp_path / 'recording'}\n".encode())
            answers.append(sock.recv(4096))
        agent.join(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        left.set()

    space["wait_for"] = block_the_loop
    main_thread = threading.get_ident()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("socket")
        listener.listen(1)
        commanding = threading.Thread(target=command)
        loop.call_soon(commanding.start)
        loop.run_forever()
        commanding.join(PATIENCE)
    assert b"the loop has run nothing" not in answers[0]
    assert (tmp_path / "recording").stat().st_size
    assert not space
    assert not Path("folder").exists()
    assert list(loop.probes.plugins()) == before


def test_another_users_socket_in_the_place_of_the_commands_gets_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("socket")
        listener.listen(1)
        another = os.geteuid() + 1
        agent = threading.Thread(target=agent_globals()["run"], args=("socket", "folder", (0, 0), another, None, 0))
        agent.start()
        sock, _ = listener.accept()
        with sock:
            sock.settimeout(PATIENCE)
            assert sock.recv(4096) == b""
        agent.join(PATIENCE)


async def test_a_process_that_may_not_write_in_its_directory_can_be_recorded(
    loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) == tmp_path)
    space, status = agent_globals(), tmp_path.stat()
    space["loop_numbered"] = lambda state, number: (loop, 0)
    space["wait_for"] = lambda sock, seconds: None
    state = {"sock": None, "place": (str(tmp_path), (status.st_dev, status.st_ino))}
    await asyncio.to_thread(space["record"], state, 1, f"0 {tmp_path / 'recording'}")
    assert (tmp_path / "recording").stat().st_size


def test_the_agent_counts_silence_from_the_last_question() -> None:
    space = agent_globals()
    now, silence = 0.0, space["SILENCE"]

    class Client:
        """Asks once, after a long time, and then is silent."""

        patience = 0.0

        def settimeout(self, seconds: float) -> None:
            self.patience = seconds

        def recv(self, size: int) -> bytes:
            nonlocal now
            if not now:
                now = silence - 1
                return b"watch 0 \n"
            now += self.patience
            raise TimeoutError

        def sendall(self, data: bytes, flags: int) -> None: ...

    space["time"] = SimpleNamespace(monotonic=lambda: now)
    space["watch"] = lambda state, number, text: state.update(watching=True)
    space["probe_all"] = lambda state: None
    space["serve"](Client(), {"watching": False})
    assert now == pytest.approx(2 * silence - 1, abs=1.0)
