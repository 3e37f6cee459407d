"""The plugins that ship with loopcore, each found by its entry point. (PYTEST_DONT_REWRITE)

A plugin imports `loopcore.hooks`, what is below it, and public names: no kernel, no transports, no backend.
"""

from typing import Final

DECLARED: Final = {
    "metrics": "loopcore_plugins.metrics:Metrics",
    "inspect": "loopcore_plugins.inspect:Inspect",
    "trace": "loopcore_plugins.trace:Trace",
    "recorder": "loopcore_plugins.recorder:Recorder",
    "spans": "loopcore_plugins.trace.spans:Spans",
    "watchdog": "loopcore_plugins.watchdog:Watchdog",
    "keep": "loopcore_plugins.policy:Keep",
    "strict": "loopcore_plugins.policy:Strict",
    "priority": "loopcore_plugins.policy:Priority",
    "fair": "loopcore_plugins.policy:Fair",
    "budget": "loopcore_plugins.policy:Budget",
    "shed": "loopcore_plugins.policy:Shed",
    "convoy": "loopcore_plugins.convoy:Convoy",
}
"""The entry points again, for a copy of loopcore without its metadata: frozen, vendored, or on PYTHONPATH."""
