"""Why a row of the page is behind a peer, or misses its target: what was counted, row by row.

Drawn only beside figures that say so (tests/benchmarks/drawing.py). Instructions are of one operation, kernel
excluded, `tests/benchmarks/instructions.py --count 20000`; system calls are counted by strace.
"""

BEHIND = (
    (
        "call_soon_args",
        (
            "3,164 instructions, 3,623 of blazio, 3,876 of rloop (callgrind, 3.13): a Handle and a tuple of arguments, "
            "made and run"
        ),
    ),
    (
        "call_soon_burst",
        "2,271 instructions, 2,781 of blazio, 2,964 of rloop (callgrind, 3.13): a Handle, made and run",
    ),
    (
        "call_soon",
        (
            "1,949 instructions, 2,424 of blazio, 2,351 of rloop (callgrind, 3.13), for a callback and the tick that "
            "runs it: fewer than any peer, but the phases of a tick are among them"
        ),
    ),
    (
        "sleep0_100",
        (
            "3,675 instructions, 5,480 of rloop (callgrind, 3.13): `asyncio.sleep`, and a task's step from one tick to "
            "the next"
        ),
    ),
    (
        "sleep0",
        (
            "4,073 instructions, 5,856 of rloop (callgrind, 3.13): `asyncio.sleep`, which is 1,666 of them in the "
            "interpreter's loop alone on 3.11, and a task's step from one tick to the next: asyncio's "
            "dict of current tasks, the phases of a tick, a queue that other threads may look at"
        ),
    ),
    (
        "spawn",
        "5,367 instructions, 19,260 of rloop (callgrind, 3.13): a coroutine, a task, a copy of the context, two steps",
    ),
    (
        "gather",
        "10 % of 12,488 instructions is loopcore's (callgrind, 3.13), most of the rest is `asyncio.gather`",
    ),
    (
        "taskgroup",
        ("8,399 instructions, 8,199 of C and Python, 20,887 of rloop (callgrind, 3.13): `TaskGroup` is Python code"),
    ),
    ("getaddrinfo", "the interface's coroutine, what it awaits, and a list with two tuples in it"),
    ("executor", "two switches between threads, which the kernel makes, and `concurrent.futures` in Python"),
    (
        "threadsafe",
        (
            "1,815 instructions of both threads, 1,710 of C and Python, 2,738 of blazio, 2,128 of rloop (callgrind, "
            "3.13); the thread that posts gives way after 4,096"
        ),
    ),
    (
        "loop_cycle",
        (
            "125,700 instructions, 139,700 of asyncio (callgrind, 3.13), most of them Python: the choice of the "
            "backend, the facade, the asynchronous generators' hooks; six system calls; a program makes one loop"
        ),
    ),
    ("timer_late", "epoll's wait has the kernel's timer slack (50 us) in it; io_uring's has not"),
    ("timer_memory", "what is left is rounding of whole pages"),
    (
        "timer_cancel",
        (
            "4,524 instructions, 5,859 of rloop (callgrind, 3.13): an object that "
            "the garbage collector knows, and a place in a heap, made and given up"
        ),
    ),
    (
        "timer",
        "a timer is an object of Python with `cancel` and `when`, in a heap ordered by deadline and by registration",
    ),
    ("task_memory", "coroutine and frame, which the interpreter makes, are part of it"),
    (
        "io_busy",
        "the poll may be put off for `poll_skip_time` while callbacks are ready; `poll_skip_ticks` 0: 5 us",
    ),
    (
        "process",
        (
            "`subprocess.Popen` starts it for both; 18 system calls of the loop's process, 19 under rloop (strace), "
            "229,000 instructions, 237,000 under rloop (callgrind, 3.13, with an imitated pidfd_open, which Valgrind "
            "3.19 does not know)"
        ),
    ),
    ("pair_echo", "both ends are in one process, the peer's through `add_reader`: see `reader`"),
    ("reader", "`recv` and `send` are the program's own calls of `socket`, the same for every loop"),
    ("idle", "the kernel's TCP work is most of it: see the column of the C server"),
    (
        "tcp-16k-10",
        (
            "2.13 system calls a request, 2.12 of the C server, 3.13 of rloop (strace); 1,807 instructions outside the "
            "kernel, 2,076 of C and Python (callgrind, 3.13): the rest is the kernel's, which copies"
        ),
    ),
    ("tcp-100k-10", "2.13 system calls a request, 2.16 of the C server, 3.16 of rloop (strace): the kernel copies"),
    ("tcp-16k-1", "3 system calls a request, as of the C server (strace): each request has a wait of its own"),
    ("tcp-100k-1", "3 system calls a request, as of the C server (strace): the kernel copies"),
    (
        "tcp",
        (
            "the system calls are those of the C server (see below); outside the kernel 1,855 instructions a request, "
            "1,933 of C and Python, 2,730 of rloop (callgrind, 3.13, 1 KiB x 10); on 3.11 1,769, 1,731 and 2,500; on "
            "one connection, where each has a tick of its own, 2,684, 1,938 and 3,491 on 3.13"
        ),
    ),
    (
        "unix",
        (
            "the system calls are those of the C server (see below); outside the kernel 1,861 instructions a request, "
            "1,945 of C and Python (callgrind, 3.13): what is left is a call of Python and two objects; over io_uring "
            "it makes as many system calls as on TCP, and no fewer"
        ),
    ),
    (
        "buffered",
        (
            "2.14 system calls a request, the C server has 2.15; 5,363 instructions, 4,820 of C and Python "
            "(callgrind, 3.13): two calls of Python, and a copy that the program makes, are in both"
        ),
    ),
    ("sock", "each `sock_*` call is an awaitable of its own, and so a task's step each time it has to wait"),
    ("split", "the system calls are the least (see below): both writes in one"),
    (
        "udp",
        (
            "one `sendto` and one `recvfrom` a datagram, as of the C server; 1,716 to 2,600 instructions outside the "
            "kernel with ten clients, 1,865 of C and Python, 4,860 of rloop (callgrind, 3.13): the rest of the time is "
            "the kernel's; with one client there is a wait besides, more often under strace than without"
        ),
    ),
    (
        "tls-100k",
        "1,455,400 instructions, 1,461,300 of C and Python, 1,561,100 of uvloop (callgrind, 3.13)",
    ),
    (
        "tls",
        (
            "29,000 to 29,800 instructions, by the state of the heap, of which OpenSSL's are 18,400; 28,100 of C and "
            "Python, 38,100 of uvloop (callgrind, 3.13); on 3.11 28,020, 26,980 and 35,190: with the "
            "kernel's part, which is the same for all, C and Python stay below 1.3 x uvloop"
        ),
    ),
    (
        "churn",
        (
            "7.3 system calls a connection over epoll, as of the C server, 3.2 over io_uring, 11.0 of uvloop (strace); "
            "36,892 instructions over epoll, 12,324 of C and Python, 29,939 of uvloop (callgrind, 3.13)"
        ),
    ),
    ("uvicorn", "most of the row is uvicorn and its HTTP parser"),
    (
        "aiohttp",
        "2.0 system calls a request over epoll, 0.04 over io_uring, as blazio (strace): what is left is aiohttp",
    ),
    (
        "streams-own",
        (
            "8,017 instructions a request, 4,533 of C and Python (callgrind, 3.13), which runs the task within the "
            "event and has one object for reader, writer and what is awaited: even so the kernel's part bounds the row"
        ),
    ),
    (
        "streams-100k",
        (
            "123,225 instructions a request, 223,009 of C and Python (callgrind, 3.13), which copies a message twice, "
            "as every loop does but loopcore (ADR 0050): the rest is the kernel's"
        ),
    ),
    ("streams", "`asyncio.StreamReader` and `StreamWriter` are Python code, the same for every loop"),
)
"""Reasons by the beginning of a row's name; the first that fits."""
