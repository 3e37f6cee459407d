"""A browser without a window, for tests marked `browser`: what a page shows, as its document or as a picture.

Needs Chromium (Debian's package is `chromium`). LOOPCORE_SCREENSHOTS names a folder to keep the pictures in; the
manual's are made that way: `LOOPCORE_SCREENSHOTS=docs/images pytest -m "browser or not browser" -k picture`.
"""

import functools
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 60.0
SIZE = (1280, 720)
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")


def open_page(url: str, *arguments: str, milliseconds: int = 8000, size: tuple[int, int] = SIZE) -> str:
    """Let the page run for that many milliseconds of its own time; return what Chromium prints."""
    chromium = next((found for name in _NAMES if (found := shutil.which(name))), None)
    assert chromium, f"these tests need one of {', '.join(_NAMES)} on PATH"
    command = [chromium, *_FLAGS, f"--window-size={size[0]},{size[1]}", f"--virtual-time-budget={milliseconds}"]
    done = subprocess.run([*command, *arguments, url], capture_output=True, text=True, timeout=PATIENCE, check=True)
    return done.stdout


def read_document(url: str, **options: int) -> str:
    """Return the document as it is after its scripts ran, as HTML."""
    return open_page(url, "--dump-dom", **options)  # type: ignore[arg-type]


def take_picture(url: str, name: str, scratch: Path, size: tuple[int, int] = SIZE) -> Path:
    """Return the path of a picture of the page, in LOOPCORE_SCREENSHOTS if that is set."""
    path = Path(os.environ.get("LOOPCORE_SCREENSHOTS") or scratch).resolve() / name
    open_page(url, f"--screenshot={path}", size=size)
    return path


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the files of `folder` on the loopback; yields the address without a slash at its end."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
