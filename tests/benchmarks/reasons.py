"""Why a row of the page is behind a peer, or misses its target: what was found, row by row.

Drawn only beside figures that say so (tests/benchmarks/drawing.py), and before the instructions that counts.py has
counted. System calls are counted by strace (`run.py --syscalls`).
"""

BEHIND = (
    ("call_soon_args", "a Handle and a tuple of arguments, made and run"),
    ("call_soon_burst", "a Handle, made and run"),
    ("call_soon", "a callback and the tick that runs it; the phases of a tick are in it"),
    ("sleep0_100", "`asyncio.sleep`, and a task's step from one tick to the next"),
    (
        "sleep0",
        (
            "`asyncio.sleep`, half of it, and a task's step from one tick to the next: asyncio's dict of current "
            "tasks, the phases of a tick, a queue that other threads may look at"
        ),
    ),
    ("spawn", "a coroutine, a task, a copy of the context, two steps"),
    ("gather", "nine tenths of it is `asyncio.gather` and the interpreter"),
    ("taskgroup", "`TaskGroup` is Python code"),
    ("getaddrinfo", "the interface's coroutine, what it awaits, and a list with two tuples in it"),
    ("executor", "two switches between threads, which the kernel makes, and `concurrent.futures` in Python"),
    ("threadsafe", "work of two threads; the one that posts gives way after 4,096"),
    (
        "loop_cycle",
        (
            "most of it is Python: the choice of the backend, the facade, the asynchronous generators' hooks; six "
            "system calls; a program makes one loop"
        ),
    ),
    ("timer_late", "epoll's wait has the kernel's timer slack (50 us) in it; io_uring's has not"),
    ("timer_memory", "what is left is rounding of whole pages"),
    ("timer_cancel", "an object that the garbage collector knows, and a place in a heap, made and given up"),
    (
        "timer",
        "a timer is an object of Python with `cancel` and `when`, in a heap ordered by deadline and by registration",
    ),
    ("task_memory", "coroutine and frame, which the interpreter makes, are part of it"),
    (
        "io_busy",
        (
            "measured while the poll could be put off for `poll_skip_time`; it no longer is while something is watched "
            "([when the poll is left out](../reference/tick.md#when-the-poll-is-left-out))"
        ),
    ),
    (
        "process",
        ("`subprocess.Popen` starts it on every loop; 18 system calls of the loop's process, 19 under rloop (strace)"),
    ),
    ("pair_echo", "both ends are in one process, the peer's through `add_reader`: see `reader`"),
    ("reader", "`recv` and `send` are the program's own calls of `socket`, the same for every loop"),
    ("idle", "the kernel's TCP work is most of it: see the column of the C server"),
    (
        "tcp-16k-10",
        "2.13 system calls a request, 2.12 of the C server, 3.13 of rloop (strace): the kernel copies",
    ),
    ("tcp-100k-10", "2.13 system calls a request, 2.16 of the C server, 3.16 of rloop (strace): the kernel copies"),
    ("tcp-16k-1", "3 system calls a request, as of the C server (strace): each request has a wait of its own"),
    ("tcp-100k-1", "3 system calls a request, as of the C server (strace): the kernel copies"),
    ("tcp", "the system calls are those of the C server (see below)"),
    (
        "unix",
        (
            "the system calls are those of the C server (see below): what is left is a call of Python and two objects; "
            "over io_uring what a submission costs is more than the system calls that it saves (ADR 0010)"
        ),
    ),
    (
        "buffered",
        (
            "2.14 system calls a request, the C server has 2.15 (strace); two calls of Python, and a copy that the "
            "program makes, are in the floor as well"
        ),
    ),
    ("pipe", "the system calls are those of every peer (see below): a wait, a read, a write"),
    ("sock", "each `sock_*` call is an awaitable of its own, and so a task's step each time it has to wait"),
    ("split", "the system calls are the least (see below): both writes in one"),
    (
        "udp",
        (
            "one `sendto` and one `recvfrom` a datagram, and one that finds nothing left at the end of a wake-up, as "
            "of the C server: the rest of the time is the kernel's"
        ),
    ),
    ("tls-100k", "nearly all of it is OpenSSL's encryption and the kernel's copies"),
    (
        "tls",
        ("two thirds of the instructions are OpenSSL's, and the kernel's part is the same for all"),
    ),
    (
        "churn",
        (
            "7.3 system calls a connection over epoll, as of the C server, 6.3 of C and Python, which leaves it to "
            "close(2) to end the registration (ADR 0012), 3.2 over io_uring, 11.0 of uvloop (strace). "
            "A transport, its driver, three callbacks and their bound methods are made for each connection, more than "
            "rloop makes; but most of the row is the kernel's, which makes and unmakes a connection"
        ),
    ),
    ("uvicorn", "most of the row is uvicorn and its HTTP parser"),
    ("aiohttp", "most of the row is aiohttp and its HTTP parser"),
    (
        "streams-own",
        (
            "the floor runs the task within the event and has one object for reader, writer and what is awaited: even "
            "so the kernel's part bounds the row"
        ),
    ),
    (
        "streams-100k",
        ("the floor copies a message twice, as every loop does but loopcore (ADR 0011): the rest is the kernel's"),
    ),
    ("streams", "`asyncio.StreamReader` and `StreamWriter` are Python code, the same for every loop"),
)
"""Reasons by the beginning of a row's name; the first that fits."""
