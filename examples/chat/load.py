"""Load: thousands of clients, some of them slow, and a check that nothing is lost but what was reported as missed.

    python -m loopcore run examples/chat/load.py --start                  starts a server, on the same kind of loop
    python examples/chat/load.py --port 7000 --pid $(pgrep -f server.py)  uses a running one; `--pid` shows its memory
    ... load.py --start --clients 2000 --groups 50 --slow 30 --posts 300 --rate 15

Members join and post, first with all of them reading, then with `--slow` of them napping. Each member checks each line:
the number of every post, and the count of every gap. Exit code 0 if received plus missed is what was posted, for every
member and in all; 1 if not, if a connection ends, or if `--max-rss` or `--max-p99` is exceeded; 2 for wrong arguments.
"""

import argparse
import asyncio
import sys
from contextlib import AsyncExitStack

from addresses import Address, add_client_options, client_address
from load_members import Violation
from load_run import LoadRun, Plan, Round
from load_server import Memory, ServerFailed, started
from messages import MAX_MEMBERS, MAX_TEXT
from server import loop_name, positive


class TooMuch(Exception):
    """A limit that was given was exceeded."""


async def load(address: Address, plan: Plan, options: argparse.Namespace) -> None:
    """Do it and print what came of it. Raises Violation, TooMuch, ServerFailed, OSError."""
    async with AsyncExitStack() as stack:
        pid = options.pid
        if options.start:
            address, pid = await stack.enter_async_context(started(address, server_options(options)))
        memory = Memory(pid)
        empty = memory.now_mib()
        run = LoadRun(address, plan)
        stack.callback(run.close)
        await run.connect()
        print(f"{plan.clients} clients in {plan.groups} groups on {address}, load on {loop_name()}")
        print(f"{plan.posts} posts of {plan.text} characters in each group, {pace(plan)}")
        print(f"server's memory: {mib(empty)} without clients, {mib(memory.now_mib())} with all of them\n")
        print(f"{'':>12} {'delivered/s':>12} {'p50 ms':>8} {'p99 ms':>8} {'received':>10} {'missed':>8} {'memory':>9}")
        result = await run.round(slowly=False)
        show("none slow", result, memory)
        if plan.slow:
            result = await run.round(slowly=True)
            show(f"{plan.slow} slow", result, memory)
            due = plan.clients * plan.posts
            print(f"\n{result.received} received + {result.missed} reported as missed = {due} = clients x posts")
        print(f"server's memory at its peak: {mib(memory.peak_mib())}")
        check_limits(result, memory.peak_mib(), options)


def pace(plan: Plan) -> str:
    return f"{plan.rate:g} a second" if plan.rate else "as fast as they come back"


def mib(memory: float | None) -> str:
    return "unknown" if memory is None else f"{memory:.1f} MiB"


def show(name: str, result: Round, memory: Memory) -> None:
    latencies = f"{result.percentile_ms(50):8.2f} {result.percentile_ms(99):8.2f}"
    counts = f"{result.received:10} {result.missed:8} {mib(memory.now_mib()):>9}"
    by_fast = f"  ({result.missed_by_fast} of them by fast members)" if result.missed_by_fast else ""
    print(f"{name:>12} {len(result.latencies_ns) / result.elapsed:12.0f} {latencies} {counts}{by_fast}", flush=True)


def check_limits(result: Round, peak_mib: float | None, options: argparse.Namespace) -> None:
    if options.max_rss is not None:
        if peak_mib is None:
            raise TooMuch("--max-rss: the server's memory is unknown; it takes Linux, and --start or --pid")
        if peak_mib > options.max_rss:
            raise TooMuch(f"the server's memory was {mib(peak_mib)} at its peak, more than {options.max_rss:g}")
    if options.max_p99 is not None and result.percentile_ms(99) > options.max_p99:
        raise TooMuch(f"p99 was {result.percentile_ms(99):.2f} ms, more than {options.max_p99:g}")


def server_options(options: argparse.Namespace) -> list[str]:
    """Return how a server is started that `options` can find."""
    chosen = ["--unix", options.unix] if options.unix else ["--host", options.host, "--port", "0"]
    if options.cert:
        chosen += ["--cert", options.cert]
    return [*chosen, "--keep", str(options.keep)]


def let_many_files_be_open(clients: int) -> None:
    """Raise this process's limit of descriptors, which its children inherit, as far as it goes."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = clients + 100
    if soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < needed:
            print(f"warning: only {allowed} files may be open, {clients} clients may not fit", file=sys.stderr)


def parse() -> tuple[Address, Plan, argparse.Namespace]:
    """Return what the command line asks for. Ends the program if it makes no sense."""
    parser = argparse.ArgumentParser(description="Puts a chat server under load, and checks what comes.")
    add_client_options(parser)
    parser.add_argument("--start", action="store_true", help="start a server of one's own, and stop it at the end")
    parser.add_argument("--cert", metavar="FILE", help="with --start: certificate and key for it, in one file")
    parser.add_argument("--keep", type=positive, default=100, help="with --start: its messages kept (%(default)s)")
    parser.add_argument("--pid", type=int, help="process id of a server that runs, to see its memory")
    parser.add_argument("--clients", type=positive, default=2000, help="default: %(default)s")
    parser.add_argument("--groups", type=positive, default=50, help="default: %(default)s")
    parser.add_argument("--slow", type=int, help="clients that nap in the second round (30, or as many as can)")
    parser.add_argument("--nap", type=float, default=1.0, help="seconds between pieces that they read (%(default)s)")
    parser.add_argument("--posts", type=positive, default=300, help="for each group and round (%(default)s)")
    parser.add_argument("--rate", type=float, default=0, help="posts a second for each group; 0: all that it can do")
    parser.add_argument("--text", type=positive, default=200, help="characters in a post (%(default)s)")
    parser.add_argument("--max-rss", type=float, metavar="MIB", help="fail if the server ever takes more memory")
    parser.add_argument("--max-p99", type=float, metavar="MS", help="fail if p99 of the last round is higher")
    options = parser.parse_args()
    at_most = options.clients - options.groups
    slow = options.slow if options.slow is not None else min(30, max(0, at_most))
    plan = Plan(options.clients, options.groups, slow, options.posts, options.rate, options.text, options.nap)
    largest = -(-plan.clients // plan.groups)
    if plan.clients < plan.groups:
        parser.error(f"--clients: {plan.groups} groups need {plan.groups} clients or more")
    if largest > MAX_MEMBERS:
        parser.error(f"--groups: {largest} members in a group are more than {MAX_MEMBERS}, which is the server's limit")
    if not 0 <= plan.slow <= at_most:
        parser.error(f"--slow: 0 to {at_most}, for the first member of each group has to be fast")
    if plan.text > MAX_TEXT - 50:
        parser.error(f"--text: at most {MAX_TEXT - 50} characters")
    if options.rate < 0 or options.nap < 0:
        parser.error("--rate and --nap: 0 or more")
    return client_address(parser, options), plan, options


def main() -> int:
    address, plan, options = parse()
    let_many_files_be_open(plan.clients)
    try:
        asyncio.run(load(address, plan, options))
    except (Violation, TooMuch, ServerFailed) as exc:
        print(f"FAILED: {exc}", file=sys.stderr)
    except OSError as exc:
        print(f"FAILED: no connection to {address}: {exc}", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
