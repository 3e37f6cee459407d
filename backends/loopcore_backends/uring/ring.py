"""The ring: memory that is shared with the kernel, and the one call that submits requests and waits.

Two queues lie in that memory. We put requests (SQEs) at the tail of one, and the kernel takes them from its head, only
inside io_uring_enter(2), because no kernel thread polls it (SQPOLL). The kernel puts completions (CQEs) at the tail of
the other, and we take them from its head. When that is full the kernel keeps the excess and sets a flag
(FEAT_NODROP); the next `enter` moves it over.

A ring with `defers` (SINGLE_ISSUER, DEFER_TASKRUN, COOP_TASKRUN) belongs to one thread: the one that enabled it,
by its first `enter`. The work of a request whose socket becomes ready is done in that thread, inside
`enter`, and nowhere else. `enter` from another thread is refused with EEXIST.

A closed ring lives on in the kernel until its last request has ended: a kernel thread cancels what is in flight. How
long that takes is not documented (35 to 75 ms on Linux 6.18), so the kernel has to report it. The writing end of a pipe
is registered with the ring (IORING_REGISTER_FILES), and nothing else has it open. Each request holds the ring, and the
ring releases its registered files last. So once the reading end, `end_fd`, reports POLLHUP, no request is left that
could touch memory.

Scratch is memory that a request points to and that the kernel copies when it takes the request (FEAT_SUBMIT_STABLE):
the struct msghdr, a few struct iovec, an address. Each place in the queue has its own.

Sources: io_uring(7), io_uring_setup(2), io_uring_enter(2), io_uring_register(2), io_ring_exit_work() in the kernel's
io_uring.c. Thread: the loop's own.
"""

import errno
import mmap
import os
import threading
import time
from typing import Any

from loopcore_backends.uring import features as _features
from loopcore_backends.uring import layout

try:
    import cython
except ImportError:
    from loopcore import _cython as cython

if cython.compiled:
    from cython.cimports.loopcore_backends._native.uring import (
        address_of,
        ints32,
        map_ring,
        ring_enter,
        ring_register,
        ring_setup,
        store_release,
        unmap_ring,
        words16,
        words32,
        words64,
    )
else:
    from loopcore_backends._native.uring import (
        address_of,
        ints32,
        map_ring,
        ring_enter,
        ring_register,
        ring_setup,
        store_release,
        unmap_ring,
        words16,
        words32,
        words64,
    )

_HAS_BARRIERS = bool(cython.compiled)

SQ_ENTRIES = 512
CQ_ENTRIES = 4096
"""Small, because newer kernels count rings as locked memory: 32 KiB and 64 KiB."""

PATIENCE_STEPS = 40
"""How often a ring is requested while there is no memory for it, 5 ms apart."""

SCRATCH_WORDS = 40
"""For each request: struct msghdr (7 words, and a spare), eight struct iovec (16), struct sockaddr_storage (16)."""
SCRATCH_VECTORS = 8
VECTORS_AT = 8
NAME_AT = 24

# Typed as C in the .pxd
_ENTER_EXT_ARG = layout.ENTER_EXT_ARG
_SQ_NEWS = layout.SQ_TASKRUN | layout.SQ_CQ_OVERFLOW
_SQ_OVERFLOW = layout.SQ_CQ_OVERFLOW
_SCRATCH_WORDS = SCRATCH_WORDS
_NOTHING = layout.OP_NOP | layout.SQE_CQE_SKIP_SUCCESS
_LOW = 0xFFFFFFFF

_CONTROL_HEAD = 4096
_ARGUMENT_SIZE = 24  # struct io_uring_getevents_arg
_NANOSECONDS = 1_000_000_000
_PATIENCE_MS = 1000


class Ring:
    """One io_uring instance."""

    __slots__ = (
        "fd",
        "end_fd",
        "features",
        "enabled",
        "owner",
        "defers",
        "tail",
        "entries",
        "control",
        "enter_flags",
        "sq_mask",
        "cq_mask",
        "rings_at",
        "rings_size",
        "sqes_at",
        "sqes_size",
        "argument_at",
        "timeout_at",
        "scratch_at",
        "sq_head",
        "sq_tail",
        "sq_flags",
        "cq_head",
        "cq_tail",
        "cqes",
        "results",
        "sqes",
        "argument",
        "timeout",
        "scratch",
    )

    def __init__(self, without: frozenset[str]) -> None:
        """Make a ring that belongs to no thread yet. Raises BackendUnavailableError, which says what to do."""
        self.fd: int = -1
        self.end_fd: int = -1
        """Reports POLLHUP when the closed ring's last request has ended."""
        self.enabled: bool = False
        self.owner: int = 0
        """The kernel's number of the thread that enabled the ring."""
        self.tail: int = 0
        """How many requests were submitted since the beginning."""
        self.rings_at: int = 0
        self.sqes_at: int = 0
        reason = _features.refusal_by_machine()
        if reason:
            raise _features.unavailable(reason)
        # Anonymous and shared: after a fork no page is copied on a write, and a child writes nothing.
        self.control: mmap.mmap = mmap.mmap(-1, _CONTROL_HEAD + SQ_ENTRIES * SCRATCH_WORDS * 8)
        start = address_of(self.control)
        self.argument_at: int = start + 256
        self.timeout_at: int = start + 512
        self.scratch_at: int = start + _CONTROL_HEAD
        self.argument: Any = words64(self.argument_at, 3)
        self.timeout: Any = words64(self.timeout_at, 2)
        self.scratch: Any = words64(self.scratch_at, SQ_ENTRIES * SCRATCH_WORDS)
        parameters: Any = words32(start, layout.PARAMS_SIZE // 4)
        self.defers: bool = "defer_taskrun" not in without
        self.fd = self._setup(parameters)
        try:
            self._map(parameters)
            opcodes = self._opcodes(start + 1024)
            bits = parameters[layout.PARAM_FEATURES]
            self.features: _features.Features = _features.decide(bits, opcodes, self.defers, without)
            self.enter_flags: int = layout.ENTER_GETEVENTS
            if bits & layout.FEAT_NO_IOWAIT:  # or else the kernel counts a loop that waits as waiting for a disk
                self.enter_flags |= layout.ENTER_NO_IOWAIT
            reason = _features.refusal_by_kernel(bits, opcodes, self.features, _HAS_BARRIERS)
            if reason:
                raise _features.unavailable(reason)
            self._watch_end(words32(start + 768, 1), start + 768)
        except BaseException:
            self.close()
            raise

    def _setup(self, parameters: Any) -> int:
        always = layout.SETUP_CLAMP | layout.SETUP_CQSIZE | layout.SETUP_R_DISABLED | layout.SETUP_SUBMIT_ALL
        deferring = layout.SETUP_SINGLE_ISSUER | layout.SETUP_DEFER_TASKRUN | layout.SETUP_COOP_TASKRUN
        deferring |= layout.SETUP_TASKRUN_FLAG
        # Without SINGLE_ISSUER any thread may use the ring, so a sleeping thread must be interrupted for its
        # requests: not COOP_TASKRUN.
        fd = -1
        for flags in [always | deferring, always] if self.defers else [always]:
            for position in range(layout.PARAMS_SIZE // 4):
                parameters[position] = 0
            parameters[layout.PARAM_CQ_ENTRIES] = CQ_ENTRIES
            parameters[layout.PARAM_FLAGS] = flags
            self.defers = bool(flags & layout.SETUP_DEFER_TASKRUN)
            fd = self._ask_for_ring()
            if fd != -errno.EINVAL:
                break
        if fd < 0:
            raise _features.unavailable(_features.refusal_by_error(-fd))
        return fd

    def _ask_for_ring(self) -> int:
        # A kernel thread releases a closed ring's locked memory, a little later (seen on Linux 6.18): a program that
        # makes one loop after the other would be refused now and then.
        for _ in range(PATIENCE_STEPS):
            fd: int = ring_setup(SQ_ENTRIES, address_of(self.control))
            if fd != -errno.ENOMEM:
                return fd
            time.sleep(0.005)
        return -errno.ENOMEM

    def _map(self, parameters: Any) -> None:
        entries = parameters[layout.PARAM_SQ_ENTRIES]
        completions = parameters[layout.PARAM_CQ_ENTRIES]
        array_at = parameters[layout.PARAM_SQ_ARRAY]
        cqes_at = parameters[layout.PARAM_CQ_CQES]
        self.entries = entries
        self.sq_mask: int = entries - 1
        self.cq_mask: int = completions - 1
        self.rings_size = max(array_at + 4 * entries, cqes_at + layout.CQE_SIZE * completions)
        self.sqes_size = layout.SQE_SIZE * entries
        self.rings_at = self._mapped(self.rings_size, layout.OFFSET_RINGS)
        self.sqes_at = self._mapped(self.sqes_size, layout.OFFSET_SQES)
        self.sq_head = words32(self.rings_at + parameters[layout.PARAM_SQ_HEAD], 1)
        self.sq_tail = words32(self.rings_at + parameters[layout.PARAM_SQ_TAIL], 1)
        self.sq_flags = words32(self.rings_at + parameters[layout.PARAM_SQ_FLAGS], 1)
        self.cq_head = words32(self.rings_at + parameters[layout.PARAM_CQ_HEAD], 1)
        self.cq_tail = words32(self.rings_at + parameters[layout.PARAM_CQ_TAIL], 1)
        self.cqes = words32(self.rings_at + cqes_at, 4 * completions)
        self.results = ints32(self.rings_at + cqes_at, 4 * completions)
        self.sqes = words64(self.sqes_at, 8 * entries)
        places = words32(self.rings_at + array_at, entries)
        for position in range(entries):
            places[position] = position  # the kernel reads this table, which never changes

    def _mapped(self, size: int, offset: int) -> int:
        where: int = map_ring(self.fd, size, offset)
        if -4096 < where < 0:
            raise _features.unavailable(_features.refusal_by_error(-where))
        return where

    def _opcodes(self, answer_at: int) -> frozenset[int]:
        result = ring_register(self.fd, layout.REGISTER_PROBE, answer_at, 256)
        if result < 0:
            raise _features.unavailable(_features.refusal_by_error(-result))
        answer: Any = words16(answer_at, 8 + 4 * 256)
        return _features.opcodes_of([answer[position] for position in range(8 + 4 * 256)])

    def _watch_end(self, table: Any, table_at: int) -> None:
        try:
            self.end_fd, writer = os.pipe()
        except OSError as exc:
            raise _features.unavailable(_features.refusal_by_error(exc.errno or 0)) from exc
        table[0] = writer
        result = ring_register(self.fd, layout.REGISTER_FILES, table_at, 1)
        os.close(writer)
        if result < 0:
            raise _features.unavailable(_features.refusal_by_error(-result))

    def consumed(self) -> int:
        """Return how many requests the kernel has taken since the beginning; read from its own counter."""
        taken: int = self.tail - ((self.tail - self.sq_head[0]) & _LOW)
        return taken

    def space(self) -> int:
        """Return how many requests can be submitted before the next `enter`."""
        free: int = self.entries - ((self.tail - self.sq_head[0]) & _LOW)
        return free

    def scratch_index(self) -> int:
        """Return where in `scratch` the memory of the next request begins."""
        return (self.tail & self.sq_mask) * _SCRATCH_WORDS

    def put(
        self, user_data: int, head: int, fd: int, offset: int, address: int, length: int, flags: int, extra: int
    ) -> int:
        """Add a request to the queue, which must have space; return its position, for `blank`.

        `head` is the opcode with its flags (see `layout`), `extra` buffer group and file index.
        """
        at = (self.tail & self.sq_mask) * 8
        number = fd & _LOW
        self.sqes[at] = head | number << 32
        self.sqes[at + 1] = offset
        self.sqes[at + 2] = address
        self.sqes[at + 3] = length | flags << 32
        self.sqes[at + 4] = user_data
        self.sqes[at + 5] = extra
        self.sqes[at + 6] = 0
        self.sqes[at + 7] = 0
        self.tail += 1
        return self.tail - 1

    def blank(self, position: int) -> None:
        """Turn a request that the kernel has not taken into a no-op without a completion."""
        at = (position & self.sq_mask) * 8
        self.sqes[at] = _NOTHING
        for word in range(1, 8):
            self.sqes[at + word] = 0

    def take_back(self, position: int) -> bool:
        """Remove the requests from `position` on. False: there are none, or the kernel has taken some of them."""
        if self.consumed() <= position < self.tail:
            self.tail = position
            return True
        return False

    def overflows(self) -> bool:
        """Whether the kernel holds completions for which there was no room."""
        return bool(self.sq_flags[0] & _SQ_OVERFLOW)

    def idle(self) -> bool:
        """Whether an `enter` that does not wait would find nothing to do. Known only with `defers`."""
        return self.defers and not self.sq_flags[0] & _SQ_NEWS and self.sq_head[0] == (self.tail & _LOW)

    def enter(self, complete: int, timeout_ns: int) -> int:
        """Submit the queued requests, run those that became ready, and wait for `complete` completions.

        Waits at most `timeout_ns`, below 0 without limit. Returns how many requests were taken, or -errno.
        """
        if not self.enabled:
            self.enable()
        store_release(self.sq_tail, self.tail & _LOW)
        submit = (self.tail - self.sq_head[0]) & _LOW
        flags = self.enter_flags
        if complete == 0 or timeout_ns < 0:
            taken: int = ring_enter(self.fd, submit, complete, flags, 0, 0)
        else:
            self.timeout[0] = timeout_ns // _NANOSECONDS
            self.timeout[1] = timeout_ns % _NANOSECONDS
            self.argument[2] = self.timeout_at
            taken = ring_enter(self.fd, submit, complete, flags | _ENTER_EXT_ARG, self.argument_at, _ARGUMENT_SIZE)
        return taken

    def enable(self) -> None:
        """Make this thread the ring's owner."""
        result = ring_register(self.fd, layout.REGISTER_ENABLE_RINGS, 0, 0)
        # EBADFD: it was enabled, and a signal handler raised before the next line.
        if result < 0 and result != -errno.EBADFD:
            raise OSError(-result, os.strerror(-result))
        self.enabled = True
        self.owner = threading.get_native_id()

    def await_owner(self) -> None:
        """If the thread that owns the ring is ending, wait until it has ended.

        A thread that ends first runs the ready requests, then ends the others: then the queue has all completions.
        """
        if self.owner in [thread.native_id for thread in threading.enumerate()]:
            return
        for _ in range(_PATIENCE_MS):
            if not os.path.exists(f"/proc/self/task/{self.owner}"):
                return
            time.sleep(0.001)

    def owner_has_ended(self) -> bool:
        """Tell whether the thread that owns the ring has ended: then nothing runs its requests; False if unknown."""
        return os.path.exists("/proc/self/task") and not os.path.exists(f"/proc/self/task/{self.owner}")

    def close(self) -> None:
        """Release the descriptors and the memory. The kernel ends what is in flight, soon: see `end_fd`."""
        if self.rings_at:
            unmap_ring(self.rings_at, self.rings_size)
            self.rings_at = 0
        if self.sqes_at:
            unmap_ring(self.sqes_at, self.sqes_size)
            self.sqes_at = 0
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)
        if self.end_fd >= 0:
            fd, self.end_fd = self.end_fd, -1
            os.close(fd)
