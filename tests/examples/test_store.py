"""The store gives back what was put into it, and refuses what is too large, on every loop."""

from programs import run


def test_demo(backend_name: str) -> None:
    code, out, err = run("store/store.py", "--demo", backend=backend_name)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == ["small: 8 bytes", "large: 300000 bytes", "none: missing"]
    # The server refuses while the client is still sending: it hears either the refusal or the reset.
    assert lines[3:] in (["huge: Refused"], ["huge: ConnectionResetError"], ["huge: BrokenPipeError"])
