"""The chat on 20 simulated hosts: it survives its faults, and the planted bug is found, shrunk and replayed."""

import re
import subprocess
import sys

from programs import EXAMPLES, PATIENCE, environment

CHAT = str(EXAMPLES / "simulated" / "chat.py")


def sim(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `loopcore sim ARGUMENTS...` as a user would."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "loopcore", "sim", *arguments],
        env=environment("asyncio"),
        capture_output=True,
        encoding="utf-8",
        timeout=4 * PATIENCE,
        check=False,
    )


def test_the_chat_survives_partitions_crashes_power_cuts_and_pauses() -> None:
    ended = sim("run", CHAT, "--first", "100", "--seeds", "20")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "no run failed" in ended.stdout
    assert "of a client" in ended.stdout


def test_the_chat_is_deterministic() -> None:
    ended = sim("twice", CHAT, "--first", "100", "--seeds", "5")
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, "", "5 seeds, twice each: no difference\n")


def test_the_planted_bug_is_found_shrunk_and_replayed_in_another_process() -> None:
    found = sim("run", f"{CHAT}:with_takeover", "--first", "400", "--seeds", "30")
    assert (found.returncode, found.stderr) == (1, "")
    assert "was said to have left" in found.stdout
    changes = re.findall(r"^ +\d+\. (\w+)", found.stdout, re.MULTILINE)
    assert len(changes) < 10
    assert "fault" in changes
    token = re.findall(r"sim1_[\w-]+", found.stdout)[-1]
    again = sim("replay", f"{CHAT}:with_takeover", token, "--hosts", "server,client2")
    assert again.returncode == 1
    assert "was said to have left" in again.stderr
