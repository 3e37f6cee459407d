"""The Windows calls that `_overlapped` lacks, through ctypes.

`_overlapped` is CPython's own module below asyncio's proactor loop: it has the overlapped calls of Winsock and pipes.
The calls here take several packets at once, poll sockets (AFD), or work on sockets given by number.

This module can be imported on Windows only.
"""

import sys

if sys.platform != "win32":
    raise ImportError("win32 only")

import ctypes
from ctypes import POINTER, c_int, c_int64, c_long, c_size_t, c_ulong, c_ushort, c_void_p, c_wchar_p
from typing import Final

kernel32: Final = ctypes.WinDLL("kernel32", use_last_error=True)
ntdll: Final = ctypes.WinDLL("ntdll")
winsock: Final = ctypes.WinDLL("ws2_32", use_last_error=True)


class Packet(ctypes.Structure):
    """OVERLAPPED_ENTRY: one packet of a port. `address` is that of the OVERLAPPED or of its replacement."""

    _fields_ = (("key", c_size_t), ("address", c_size_t), ("internal", c_size_t), ("transferred", c_ulong))


class IoStatus(ctypes.Structure):
    """IO_STATUS_BLOCK."""

    _fields_ = (("status", c_size_t), ("information", c_size_t))


class _Name(ctypes.Structure):
    _fields_ = (("length", c_ushort), ("maximum", c_ushort), ("buffer", c_wchar_p))


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("length", c_ulong),
        ("root", c_void_p),
        ("name", POINTER(_Name)),
        ("attributes", c_ulong),
        ("security", c_void_p),
        ("quality", c_void_p),
    )


get_packets: Final = kernel32.GetQueuedCompletionStatusEx
get_packets.argtypes = (c_void_p, POINTER(Packet), c_ulong, POINTER(c_ulong), c_ulong, c_int)
get_packets.restype = c_int

cancel_io: Final = kernel32.CancelIoEx
cancel_io.argtypes = (c_void_p, c_void_p)
cancel_io.restype = c_int

control_device: Final = ntdll.NtDeviceIoControlFile
control_device.argtypes = (
    *(c_void_p, c_void_p, c_void_p, c_void_p, POINTER(IoStatus), c_ulong),
    *(c_void_p, c_ulong, c_void_p, c_ulong),
)
control_device.restype = c_ulong

error_of_status: Final = ntdll.RtlNtStatusToDosError
error_of_status.argtypes = (c_ulong,)
error_of_status.restype = c_ulong

_create_file: Final = ntdll.NtCreateFile
_create_file.argtypes = (
    *(POINTER(c_void_p), c_ulong, POINTER(_Attributes), POINTER(IoStatus), c_void_p),
    *(c_ulong, c_ulong, c_ulong, c_ulong, c_void_p, c_ulong),
)
_create_file.restype = c_ulong

_ioctl: Final = winsock.WSAIoctl
_ioctl.argtypes = (c_size_t, c_ulong, c_void_p, c_ulong, c_void_p, c_ulong, POINTER(c_ulong), c_void_p, c_void_p)
_ioctl.restype = c_int

_set_option: Final = winsock.setsockopt
_set_option.argtypes = (c_size_t, c_int, c_int, c_void_p, c_int)
_set_option.restype = c_int

_get_option: Final = winsock.getsockopt
_get_option.argtypes = (c_size_t, c_int, c_int, c_void_p, POINTER(c_int))
_get_option.restype = c_int

_shutdown: Final = winsock.shutdown
_shutdown.argtypes = (c_size_t, c_int)
_shutdown.restype = c_int

SO_TYPE: Final = 0x1008
SOL_SOCKET: Final = 0xFFFF
SYNCHRONIZE: Final = 0x00100000
SHARE_READ_WRITE: Final = 3
FILE_OPEN: Final = 1
SIO_BASE_HANDLE: Final = 0x48000022


def last_socket_error() -> OSError:
    """Return the error of the previous call."""
    return ctypes.WinError(ctypes.get_last_error())


def error_from_status(status: int) -> OSError:
    """Return the error that an NTSTATUS stands for."""
    return ctypes.WinError(error_of_status(status))


def transferred_by(address: int) -> int:
    """Return the count in the OVERLAPPED at `address`, its second word; the kernel must be done with it."""
    return c_size_t.from_address(address + ctypes.sizeof(c_size_t)).value


def open_device(name: str) -> int:
    """Open a device by its name in the object manager; return its handle. Raises OSError."""
    text = _Name(2 * len(name), 2 * len(name) + 2, name)
    attributes = _Attributes(ctypes.sizeof(_Attributes), None, ctypes.pointer(text), 0, None, None)
    handle, io = c_void_p(), IoStatus()
    status = _create_file(handle, SYNCHRONIZE, attributes, io, None, 0, SHARE_READ_WRITE, FILE_OPEN, 0, None, 0)
    if status != 0:
        raise error_from_status(status)
    assert handle.value is not None
    return handle.value


def base_socket(fd: int) -> int:
    """Return the socket below layered providers, which the driver knows. Raises OSError if `fd` is not a socket."""
    base, size = c_size_t(), c_ulong()
    if _ioctl(fd, SIO_BASE_HANDLE, None, 0, ctypes.byref(base), ctypes.sizeof(base), size, None, None) != 0:
        raise last_socket_error()
    return base.value


def set_option(fd: int, option: int, value: bytes) -> None:
    """Call setsockopt at the level SOL_SOCKET. Raises OSError."""
    if _set_option(fd, SOL_SOCKET, option, value, len(value)) != 0:
        raise last_socket_error()


def type_of_socket(fd: int) -> int:
    """Return SOCK_STREAM, SOCK_DGRAM ... Raises OSError if `fd` is not a socket."""
    value, size = c_long(), c_int(4)
    if _get_option(fd, SOL_SOCKET, SO_TYPE, ctypes.byref(value), size) != 0:
        raise last_socket_error()
    return value.value


def is_socket(handle: int) -> bool:
    """Tell whether `handle` is a socket."""
    try:
        type_of_socket(handle)
    except OSError:
        return False
    return True


def shut_down(fd: int, how: int) -> None:
    """Call shutdown(2). Raises OSError."""
    if _shutdown(fd, how) != 0:
        raise last_socket_error()


class PollHandle(ctypes.Structure):
    """AFD_POLL_HANDLE_INFO: a socket, the events asked for, and in the answer the events that happened."""

    _fields_ = (("handle", c_size_t), ("events", c_ulong), ("status", c_ulong))


class PollInfo(ctypes.Structure):
    """AFD_POLL_INFO for one socket; the timeout is in units of 100 ns."""

    _fields_ = (("timeout", c_int64), ("count", c_ulong), ("exclusive", c_ulong), ("handles", PollHandle * 1))
