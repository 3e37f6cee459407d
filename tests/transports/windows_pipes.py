"""Pipes on Windows for the tests: HANDLEs made for overlapped work, and how a test reads and writes the raw end."""

import sys
from typing import Any

if sys.platform == "win32":
    import _winapi
    from asyncio import windows_utils

    def make_pair() -> tuple[Any, Any]:
        """Return both ends. The writing one may read too: so its transport notices that the other has gone."""
        near, far = windows_utils.pipe(duplex=True)
        return windows_utils.PipeHandle(near), windows_utils.PipeHandle(far)

    def write(pipe: Any, data: bytes) -> int:
        overlapped, _ = _winapi.WriteFile(pipe.fileno(), data, overlapped=True)
        return overlapped.GetOverlappedResult(True)[0]

    def read_some(pipe: Any, count: int) -> bytes:
        """Return what is there, b"" at the end. Raises BlockingIOError if nothing is."""
        try:
            ready, _ = _winapi.PeekNamedPipe(pipe.fileno(), 0)
        except BrokenPipeError:
            return b""
        if not ready:
            raise BlockingIOError
        overlapped, _ = _winapi.ReadFile(pipe.fileno(), min(ready, count), overlapped=True)
        overlapped.GetOverlappedResult(True)
        return bytes(overlapped.getbuffer())

    def is_closed(pipe: Any) -> bool:
        return pipe.handle is None
