"""The demo is the main job of the README: it must run, say what it runs on, and check itself."""

import re

from programs import run


def test_demo_is_ok(backend_name: str) -> None:
    ended = run("chat/demo.py", backend=backend_name)
    assert (ended.code, ended.err) == (0, ""), ended.out
    name = "asyncio.unix_events" if backend_name == "asyncio" else f"loopcore.loop.EventLoop ({backend_name})"
    last = ended.out.splitlines()[-1]
    assert last.startswith(f"demo ok on {name}")
    assert re.search(r"6 requests refused, [1-9]\d* of 400 posts missed and counted, \d+\.\d\d s$", last)
    assert "[tea] bob: grüß dich, Ann" in ended.out


def test_demo_is_ok_in_debug_mode(backend_name: str) -> None:
    flags = ("-X", "dev", "-W", "error")
    ended = run("chat/demo.py", backend=backend_name, flags=flags, more={"PYTHONASYNCIODEBUG": "1"})
    assert ended.code == 0, ended.out + ended.err
    # asyncio's debug mode says which selector it uses, and warns of callbacks that a busy machine made slow.
    harmless = re.compile(r"^(Using selector|Executing .* took .* seconds)")
    assert [line for line in ended.err.splitlines() if not harmless.match(line)] == []
