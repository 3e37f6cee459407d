"""trace: a record of what a loop did, as a file that Perfetto, chrome://tracing and speedscope open.

    LOOPCORE_PLUGINS=trace loopcore run server.py        writes loopcore-trace-PID-1.json when the loop is closed
    loopcore run --plugin trace:file=out.json.gz server.py
    python -m loopcore_plugins.trace out.json.gz         checks the file, and lists the slowest tasks

One track shows the ticks of the loop, its phases and what ran in them; each task has a separate track, and so
has each thread of a pool. Arrows lead from the code that woke or scheduled something to the place where it ran.
`loopcore_plugins.trace.spans` (the plugin `spans`) makes OpenTelemetry spans instead.
"""

from loopcore_plugins.trace.plugin import Trace

__all__ = ["Trace"]
