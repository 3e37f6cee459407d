"""The measuring harness of loopcore, and nothing of loopcore itself.

One measurement is one fresh process. The parent (cli, rounds) decides the order, the children (child, server)
run one workload on one loop and print one line of JSON. Nothing here imports the loops under test except by name,
so a loop that is not installed costs a printed reason and no more.

Method and pitfalls: docs/explanation/benchmarks.md.
"""
