"""Layout: the numbers of io_uring's interface with the kernel, so that no header is needed.

Sources: io_uring_setup(2), io_uring_enter(2), io_uring_register(2), io_uring_prep_*(3), io_uring(7). Offsets count
the integers by which the memory is read, little-endian: a submission is eight 64-bit words, a completion four
32-bit words.
"""

from typing import Final

# io_uring_setup(2): flags
SETUP_CQSIZE: Final = 1 << 3
SETUP_CLAMP: Final = 1 << 4
SETUP_R_DISABLED: Final = 1 << 6
SETUP_SUBMIT_ALL: Final = 1 << 7
SETUP_COOP_TASKRUN: Final = 1 << 8
SETUP_TASKRUN_FLAG: Final = 1 << 9
SETUP_SINGLE_ISSUER: Final = 1 << 12
SETUP_DEFER_TASKRUN: Final = 1 << 13

# io_uring_setup(2): features
FEAT_SINGLE_MMAP: Final = 1 << 0
FEAT_NODROP: Final = 1 << 1
FEAT_SUBMIT_STABLE: Final = 1 << 2
FEAT_EXT_ARG: Final = 1 << 8
FEAT_CQE_SKIP: Final = 1 << 11
FEAT_RECVSEND_BUNDLE: Final = 1 << 14
FEAT_NO_IOWAIT: Final = 1 << 17

# struct io_uring_params, as 32-bit integers
PARAMS_SIZE: Final = 120
PARAM_SQ_ENTRIES: Final = 0
PARAM_CQ_ENTRIES: Final = 1
PARAM_FLAGS: Final = 2
PARAM_FEATURES: Final = 5
PARAM_SQ_HEAD: Final = 10
PARAM_SQ_TAIL: Final = 11
PARAM_SQ_FLAGS: Final = 14
PARAM_SQ_ARRAY: Final = 16
PARAM_CQ_HEAD: Final = 20
PARAM_CQ_TAIL: Final = 21
PARAM_CQ_CQES: Final = 25

OFFSET_RINGS: Final = 0
OFFSET_SQES: Final = 0x10000000
SQE_SIZE: Final = 64
CQE_SIZE: Final = 16

# Flags that the kernel sets in the submission ring
SQ_CQ_OVERFLOW: Final = 1 << 1
SQ_TASKRUN: Final = 1 << 2

# io_uring_enter(2)
ENTER_GETEVENTS: Final = 1 << 0
ENTER_EXT_ARG: Final = 1 << 3
ENTER_NO_IOWAIT: Final = 1 << 7

# io_uring_register(2)
REGISTER_FILES: Final = 2
REGISTER_PROBE: Final = 8
REGISTER_ENABLE_RINGS: Final = 12
REGISTER_PBUF_RING: Final = 22
PBUF_RING_INC: Final = 1 << 1

# Opcodes
OP_NOP: Final = 0
OP_WRITEV: Final = 2
OP_FSYNC: Final = 3
OP_POLL_ADD: Final = 6
OP_SENDMSG: Final = 9
OP_RECVMSG: Final = 10
OP_ACCEPT: Final = 13
OP_ASYNC_CANCEL: Final = 14
OP_CONNECT: Final = 16
OP_OPENAT: Final = 18
OP_CLOSE: Final = 19
OP_STATX: Final = 21
OP_READ: Final = 22
OP_SEND: Final = 26
OP_RECV: Final = 27
OP_SHUTDOWN: Final = 34
OP_SOCKET: Final = 45
OP_SEND_ZC: Final = 47
OP_WAITID: Final = 50

# The first 32 bits of a submission: opcode, then its flags, then `ioprio`, which carries flags of some opcodes
SQE_IO_LINK: Final = (1 << 2) << 8
SQE_BUFFER_SELECT: Final = (1 << 5) << 8
SQE_CQE_SKIP_SUCCESS: Final = (1 << 6) << 8
RECV_MULTISHOT: Final = (1 << 1) << 16
RECVSEND_BUNDLE: Final = (1 << 4) << 16
ACCEPT_MULTISHOT: Final = (1 << 0) << 16

POLL_ADD_MULTI: Final = 1 << 0
POLL_RDHUP: Final = 0x2000
CANCEL_ALL: Final = 1 << 0
CANCEL_ANY: Final = 1 << 2
FSYNC_DATASYNC: Final = 1 << 0

# Flags of a completion; the number of its buffer is above them
CQE_BUFFER: Final = 1 << 0
CQE_MORE: Final = 1 << 1
CQE_BUFFER_MORE: Final = 1 << 4
CQE_BUFFER_SHIFT: Final = 16

# struct io_uring_recvmsg_out, before the name and the payload of a datagram
RECVMSG_OUT_SIZE: Final = 16
NAME_SIZE: Final = 128
"""sizeof(struct sockaddr_storage)."""

# waitid(2), openat(2), statx(2)
P_PID: Final = 1
WEXITED: Final = 4
WNOWAIT: Final = 0x01000000
CLD_EXITED: Final = 1
CLD_DUMPED: Final = 3
SIGINFO_SIZE: Final = 128
SIGINFO_CODE: Final = 2
SIGINFO_STATUS: Final = 6
"""Of struct siginfo_t, as 32-bit integers, for SIGCHLD on 64-bit machines."""
AT_FDCWD: Final = -100
AT_SYMLINK_NOFOLLOW: Final = 0x100
AT_EMPTY_PATH: Final = 0x1000
STATX_BASIC_STATS: Final = 0x7FF
STATX_SIZE: Final = 256
