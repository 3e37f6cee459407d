"""What the loop takes over from the scheduler; the rest of its surface is looked at in tests/compatibility."""

import loopcore


def test_no_method_overrides_the_scheduler_by_accident() -> None:
    shared = {name for name in vars(loopcore.EventLoop) if hasattr(loopcore.EventLoop.__mro__[1], name)}
    plumbing = {name for name in shared if name.startswith("__")}
    assert shared - plumbing == {"set_debug", "call_exception_handler"}
