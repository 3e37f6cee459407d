"""Client: the other end of the socket, for the commands and for other programs.

    with connect(find("4711")[0]) as client:
        for task in client.ask("ps")["tasks"]:
            ...

Thread: one at a time. Errors: UsageError for a name or reply that is not understood, GoneError for an ended process.
"""

import socket
from typing import Any, Final

from loopcore.errors import LoopcoreError, UsageError
from loopcore_plugins.inspect import places
from loopcore_plugins.inspect.places import Address
from loopcore_plugins.inspect.protocol import VERSION, Lines, Message, ProtocolError, decode, encode

PATIENCE: Final = 10.0
"""Seconds to wait for an answer. It comes from a thread that needs the GIL now and then."""
_LONGEST_ANSWER: Final = 256 * 1024 * 1024
_CHUNK: Final = 1 << 16


class GoneError(LoopcoreError):
    """The process has ended, or closed its loop."""


class SilentError(GoneError):
    """The process does not answer in time; it may be stopped."""


class Client:
    """A connection to one loop; `connect` makes them. `greeting` is the loop's description of itself.

    Also a context manager that closes.
    """

    def __init__(self, address: Address, folder: places.Folder) -> None:
        self.address = address
        self._lines = Lines(_LONGEST_ANSWER)
        self._asked = 0
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._sock.settimeout(PATIENCE)
            self._sock.connect(folder.path_to(address.path.name))
            self.greeting = self._receive()
            spoken = self.greeting.get("loopcore-inspect")
            if spoken != VERSION:
                raise UsageError(f"{address} speaks version {spoken} of the protocol, this command {VERSION}")
        except BaseException:
            self._sock.close()
            raise

    def ask(self, what: str, **arguments: Any) -> Any:
        """Return the answer to a question; `loopcore_plugins.inspect.subject` lists them.

        Raises UsageError if it is refused, GoneError if the process ends.
        """
        self._asked += 1
        try:
            self._sock.sendall(encode({"id": self._asked, "ask": what, **arguments}))
            reply = self._receive()
        except OSError as exc:
            raise self._failure(exc) from None
        if "error" in reply:
            raise UsageError(f"{self.address}: {reply['error']}")
        return reply["answer"]

    def close(self) -> None:
        """End the connection, and the measurements made for it. Idempotent."""
        self._sock.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _receive(self) -> Message:
        while True:
            try:
                received = self._sock.recv(_CHUNK)
            except OSError as exc:
                raise self._failure(exc) from None
            if not received:
                raise GoneError(f"{self.address} has ended, or closed its loop")
            try:
                for line in self._lines.feed(received):
                    return decode(line)
            except ProtocolError as exc:
                raise UsageError(f"{self.address} is not an inspected loop: {exc}") from None

    def _failure(self, exc: OSError) -> LoopcoreError:
        if isinstance(exc, TimeoutError):
            return SilentError(f"{self.address} does not answer; is it stopped?")
        return GoneError(f"{self.address} has ended, or closed its loop")


def connect(address: Address) -> Client:
    """Return a connection to the loop at `address`.

    Raises GoneError if there is no loop, and removes its socket; UsageError if its folder is not safe.
    """
    try:
        with places.Folder(address.path.parent) as folder:
            try:
                return Client(address, folder)
            except ConnectionRefusedError:
                folder.remove_if_dead(address.path.name)
                raise GoneError(f"{address} has ended") from None
    except OSError as exc:
        raise GoneError(f"{address} cannot be reached: {exc}") from None


def find(wish: str) -> list[Address]:
    """Return the loops that `wish` names: `all`, a process number, or PID.NUMBER for one loop of several.

    Dead loops are included, until `connect` finds out. Raises UsageError if there are none.
    """
    known = places.addresses()
    if wish == "all":
        found = known
    else:
        named = places.pid_and_number(wish)
        if named is None:
            raise UsageError(f"{wish!r} is not a process number, PID.NUMBER or `all`; see `loopcore ps`")
        pid, number = named
        found = [each for each in known if each.pid == pid and number in (None, each.loop)]
    if not found:
        start = "to inspect a program, start it as in: loopcore run --plugin inspect FILE"
        if wish == "all":
            other = "or give the number of one that was not, as in loopcore ps PID (Linux, Python 3.14)"
            raise UsageError(f"no program can be inspected here; {start}, {other} (looked in {places.folder()})")
        exists = places.exists(pid)
        what = f"process {wish} cannot be inspected" if exists else f"there is no process {pid}"
        others = ", ".join(sorted({str(each.pid) for each in known}))
        if known:
            raise UsageError(f"{what}; these can be inspected: {others}")
        raise UsageError(f"{what}; {start}" if exists else f"{what}, and no program can be inspected here; {start}")
    return found
