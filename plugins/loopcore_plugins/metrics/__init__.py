"""metrics: a loop's counters and histograms, for programs, Prometheus and OpenTelemetry.

    LOOPCORE_PLUGINS=metrics:port=9100 uvicorn --loop loopcore:new_event_loop app:app

docs/reference/plugins/metrics.md is the manual, with a table of all metrics.
"""

from loopcore_plugins.metrics.plugin import Metrics
from loopcore_plugins.metrics.registry import snapshots
from loopcore_plugins.metrics.snapshot import LoopSnapshot, PoolSnapshot, StallsSnapshot, TransportsSnapshot

__all__ = ["LoopSnapshot", "Metrics", "PoolSnapshot", "StallsSnapshot", "TransportsSnapshot", "snapshots"]
