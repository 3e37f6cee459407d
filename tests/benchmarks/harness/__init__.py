"""The harness that measures what docs/evidence/performance.md publishes and judges the targets.

It builds on `loopcore_bench`, which measures a handful of workloads without C. It adds the other workloads, a load
generator and two floors in C (native), counts of instructions and system calls, and turns within a row.

Children are started by `loopcore_bench/start.py`, with this repository on the path. Method and pitfalls:
docs/evidence/benchmarks.md.
"""
