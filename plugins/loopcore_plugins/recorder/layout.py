"""The layout of a recording, in memory and in a file; `ring` writes it and `reading` reads it.

All numbers are little-endian and unsigned, of 64 bits unless stated otherwise. Four parts follow one another:

- the header, `HEADER` bytes: the words named by `Word`;
- the ring: records of 16 bytes, a power of two of them. Record number n is at place n modulo their count, and
  `Word.WRITTEN` says how many were written, so the ring keeps the newest;
- the labels: a byte area of which `Word.LABELS_USED` bytes are used. An entry is the length of its text (32 bits) and
  the text, UTF-8, three lines: a name, a file, a line number. The first entry is label 1;
- in a dump only: a JSON object, `Word.FACTS` bytes long (tasks, stalls, the reason; see `Facts`).

A record is two words. The first has, from the lowest bit: the kind (8 bits), an argument (8), a label (16), a time
(32). The second is `who`: an identity (of a callback or task: its address), or a number.

The time of a record is in steps of a fast counter since the last TICK; `Kind.TICK` itself has the steps since the
previous TICK, and the time of CLOCK_MONOTONIC in nanoseconds as `who`. From the ticks a reader learns how long a step
is. A time that does not fit is `LONGEST`.
"""

from enum import IntEnum
from typing import Final

MAGIC: Final = int.from_bytes(b"loopcRec", "little")
VERSION: Final = 1
HEADER: Final = 512
RECORD: Final = 16
LONGEST: Final = (1 << 32) - 1
OTHER_LABEL: Final = (1 << 16) - 1
"""The label of everything that found no room among the labels."""


class Word(IntEnum):
    """The words of the header, by index."""

    MAGIC = 0
    VERSION = 1
    PID = 2
    CAPACITY = 3
    """Records that the ring holds."""
    WRITTEN = 4
    """Records written so far."""
    LABELS_AT = 5
    """Where the labels begin, in bytes from the start."""
    LABELS_SIZE = 6
    LABELS_USED = 7
    WALL_NS = 8
    """time.time_ns() when the recording began; with the next, it makes dates of monotonic times."""
    MONOTONIC_NS = 9
    THREAD = 10
    """The kernel's id of the loop's thread; before the first run, of the thread that made the recorder."""
    FACTS = 11
    """Bytes of JSON behind the labels; 0 in a mapped file."""


class Kind(IntEnum):
    """The kinds of records."""

    TICK = 1
    """A wait has returned, or a run began. `label`: events, at most 65,535. `who`: monotonic nanoseconds."""
    WAIT = 2
    """The loop begins to wait: whatever ran before has ended. `argument`: 1 if the wait may block."""
    BEGIN = 3
    """A callback or a step begins; it ends at the next BEGIN, WAIT or TICK. `argument`: its source (the index in
    `loopcore.hooks.sources.SOURCES`). `label`: its code. `who`: its identity."""
    DONE = 4
    """The task `who`, whose step runs, is done. `argument`: an `Outcome`."""
    WAKE = 5
    """`who` was put on the ready queue: by the step or callback that runs now, or, between WAIT and the next BEGIN,
    by the loop. `argument`: its source. `label`: the code of a task, 0 for others: their BEGIN has it."""
    SPAWN = 6
    """The same, for the first time in a task's life. An identity may have belonged to an earlier task."""
    NAME = 7
    """The task `who` has the name `label`: only tasks that the program has named."""
    SITE = 8
    """The task `who`, whose BEGIN comes next, was suspended for long; one record for each frame of its awaits,
    outermost first. `label`: function, file and the line of the await."""
    DUE = 9
    """A timer was found due. `who`: its deadline, in nanoseconds of the loop's clock (monotonic unless the program
    has set another). The timers' BEGINs follow in the same order."""
    POST = 10
    """A callback of another thread, or of a signal handler, was taken over. As WAKE."""
    RECEIVED = 11
    """Bytes received by all transports since the last such record: `who`."""
    SENT = 12
    """Bytes sent, likewise."""
    ACCEPTED = 13
    """Connections accepted, likewise."""
    JOB_SUBMITTED = 14
    """The running callback or step hands the job `who` to an executor. `label`: its function."""
    JOB = 15
    """The job `who` is over; two records follow at once. `label`: its function. `argument`: 1 if it failed."""
    JOB_STARTED = 16
    """`who`: when, in monotonic nanoseconds; 0 for a job that never ran. `label`: its thread."""
    JOB_ENDED = 17
    """`who`: when, in monotonic nanoseconds. `argument`: jobs that waited in the same pool then, at most 255."""
    COLLECTED = 18
    """The garbage collector ran in the loop's thread and ends now. `who`: nanoseconds. `argument`: the generation."""
    CPU = 19
    """CPU time of the loop's thread since it began, in nanoseconds: `who`. Recorded now and then, at a TICK, and at
    the WAIT after a long tick."""
    RUN_QUEUE = 20
    """Time for which the loop's thread was ready but the kernel ran another, likewise (schedstat)."""
    GIL = 21
    """The thread had returned from a system call and waited for the GIL: `who`, in nanoseconds. Before the TICK of
    that wait. Only backends that can tell."""
    ERROR = 22
    """The loop's exception handler was called. `label`: the exception's class and the message."""
    STALL = 23
    """The watchdog found a stall, which is over. `who`: nanoseconds. `argument`: its number in `Facts`, modulo 256."""
    OPENED = 24
    """A transport was opened. `label`: its class and the protocol's. `who`: its identity. `argument`: 1 if a server has
    accepted it; of a TLS connection only for the transport below."""
    CLOSED = 25
    """A transport was closed, likewise."""
    RECEIVED_BY = 26
    """Bytes that the transport `who` received: `label`, and `argument` times 65,536. 0: the end of the stream, or a
    read after which the transport reads no more. Only with the option `connections`."""
    SENT_BY = 27
    """Bytes that the transport `who` sent, likewise; never 0."""


class Outcome(IntEnum):
    """How a task ended."""

    RESULT = 1
    EXCEPTION = 2
    CANCELLED = 3
