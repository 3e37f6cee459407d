"""`loopcore bench`: the installed event loops, compared on a handful of workloads.

One measurement is one fresh process. The parent (command, rounds, measure) decides the order; the children (child,
server, load) run one workload on one loop and print one line of JSON. Only the command imports loopcore, and
loops are imported by name only, so a loop that is not installed costs no more than a printed reason.

The published figures come from a larger harness, which builds on these modules: tests/benchmarks/harness in
the repository. Method and pitfalls: docs/evidence/benchmarks.md.
"""
