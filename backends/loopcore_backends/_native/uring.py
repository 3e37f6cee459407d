"""The Python twins of `uring.pxd`, for the pure build, through ctypes: same names, same contracts.

Shared memory is a ctypes array of integers, read and written in units of the array's width. It truncates values
that do not fit, as C does. It has no memory barriers; `loopcore_backends.uring.features` ensures that none
is needed.

Sent buffers are copied once: not every interpreter keeps a `bytes` at one address.
"""

import ctypes
import errno
import math
import os
import socket
import sys
import time
from threading import get_ident as get_ident
from typing import Any, Final

from loopcore_backends import _sockaddr

_LINUX: Final = sys.platform == "linux"
_LIBRARY: Any = ctypes.CDLL(None, use_errno=True) if _LINUX else None
_PROT_READ_WRITE: Final = 1 | 2
_MAP_SHARED_POPULATE: Final = 0x01 | 0x8000
if _LINUX:
    _LIBRARY.syscall.restype = ctypes.c_long
    _LIBRARY.mmap.restype = ctypes.c_void_p
    _LIBRARY.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    _LIBRARY.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


def _call(number: int, *arguments: int) -> int:
    if _LIBRARY is None:
        return -errno.ENOSYS
    result: int = _LIBRARY.syscall(ctypes.c_long(number), *map(ctypes.c_ulong, arguments))
    return -ctypes.get_errno() if result < 0 else result


def ring_setup(entries: int, parameters: int) -> int:
    """Call io_uring_setup(2); return a descriptor."""
    return _call(425, entries, parameters)


def ring_enter(fd: int, submit: int, complete: int, flags: int, argument: int, size: int) -> int:
    """Call io_uring_enter(2); return how many requests the kernel took."""
    return _call(426, fd, submit, complete, flags, argument, size)


def ring_register(fd: int, opcode: int, argument: int, count: int) -> int:
    """io_uring_register(2)."""
    return _call(427, fd, opcode, argument, count)


def map_ring(fd: int, length: int, offset: int) -> int:
    """Call mmap(2) for a part of the ring; return its address. The mmap module would keep a copy of the descriptor."""
    where = _LIBRARY.mmap(None, length, _PROT_READ_WRITE, _MAP_SHARED_POPULATE, fd, offset)
    return -ctypes.get_errno() if where == ctypes.c_void_p(-1).value else where


def unmap_ring(address: int, length: int) -> None:
    """munmap(2)."""
    _LIBRARY.munmap(address, length)


def internet_address(where: int) -> Any:
    """Return the internet address at `where`, None for another family."""
    return _sockaddr.decode_internet(ctypes.string_at(where, 28))


def family_of(fd: int) -> int:
    """Return the address family of a socket, -1 if `fd` is not a socket."""
    try:
        with socket.socket(fileno=os.dup(fd)) as copy:
            return copy.family
    except OSError:
        return -1


now_ns = time.monotonic_ns


def to_ns(seconds: float) -> int:
    """Return `seconds` in nanoseconds, rounded up; more than thirty years is cut off."""
    return math.ceil(min(seconds, 1e9) * 1e9)


def words16(address: int, count: int) -> Any:
    """Return the memory at `address` as 16-bit integers."""
    return (ctypes.c_uint16 * count).from_address(address)


def words32(address: int, count: int) -> Any:
    """Return the memory at `address` as 32-bit integers."""
    return (ctypes.c_uint32 * count).from_address(address)


def words64(address: int, count: int) -> Any:
    """Return the memory at `address` as 64-bit integers."""
    return (ctypes.c_uint64 * count).from_address(address)


def ints32(address: int, count: int) -> Any:
    """Return the memory at `address` as signed 32-bit integers."""
    return (ctypes.c_int32 * count).from_address(address)


def load_acquire(where: Any) -> int:
    """Return the first integer of `where`."""
    value: int = where[0]
    return value


def store_release(where: Any, value: int) -> None:
    """Set the first integer of `where`."""
    where[0] = value


store_release16 = store_release


def hold(item: Any) -> Any:
    """Return an object that keeps the bytes of `item` in place. Raises BufferError if it is not contiguous."""
    view = memoryview(item)
    if not view.c_contiguous:
        raise BufferError("a buffer that is sent must be contiguous")
    flat = view.cast("B") if view.nbytes else b""
    held = (ctypes.c_char * view.nbytes).from_buffer_copy(flat)
    held.view = view  # type: ignore[attr-defined]  # a sent buffer must not be resized, even if copied
    return held


def address_of(held: Any) -> int:
    """Return the address of a mapping, or of an object from `hold` or `room`."""
    if isinstance(held, ctypes.Array):
        return ctypes.addressof(held)
    return ctypes.addressof(ctypes.c_char.from_buffer(held))


def length_of(held: Any) -> int:
    """Return the length of an object from `hold`."""
    return len(held)


def room(size: int) -> Any:
    """Return memory for the kernel to fill."""
    return (ctypes.c_char * size)()


def cut(room: Any, size: int) -> bytes:
    """Return the first bytes of `room`."""
    return ctypes.string_at(room, size)


take = ctypes.string_at


def poke(address: int, data: bytes) -> None:
    """Copy `data` to `address`."""
    ctypes.memmove(address, data, len(data))


def check_signals() -> None:
    """Do nothing: the interpreter itself runs handlers between two steps."""
