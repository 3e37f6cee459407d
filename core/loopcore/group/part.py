"""What a member gets from its group: its part, and a link for requests."""

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from socket import socket
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from loopcore.runner import LoopFactory

if TYPE_CHECKING:
    from loopcore.group.member import Member

Kind: TypeAlias = Literal["threads", "processes"]
Main = Callable[["Member"], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Part:
    """The arguments of a member, the same after a restart but for `generation`.

    Picklable if `main` and `loop_factory` are.
    """

    main: Main
    loop_factory: LoopFactory | None
    debug: bool | None
    kind: Kind
    count: int
    index: int
    generation: int
    drain_timeout: float
    sockets: int
    """How many bound sockets the group was given."""


@dataclass(frozen=True, slots=True)
class ListenRequest:
    """Which listening sockets a member needs. Equal requests of several members are one server."""

    family: str
    """"tcp", "unix", or "given" for a socket that the group was given."""
    arguments: tuple[tuple[str, Any], ...]
    occurrence: int
    """How many servers with these arguments the member has already."""


@dataclass(frozen=True, slots=True)
class Listening:
    """The answer: the server's number in the group, and copies of the member's sockets, which the member closes."""

    number: int
    sockets: list[socket]


class Link(Protocol):
    """A member's requests to its group. Thread: any.

    Nothing waits for an answer. Between processes, sending blocks while the group's process does not read, at most
    `rpc.SEND_TIMEOUT` seconds.
    """

    def report_began(self, pid: int, thread_id: int) -> None:
        """Report that the loop runs, and accepts calls."""

    def report_ready(self) -> None:
        """Report that `main` has set up what it needs."""

    def listen(self, request: ListenRequest) -> "Future[Listening]":
        """Ask for listening sockets."""

    def release(self, number: int) -> None:
        """Report that the program has closed this member's part of a server."""

    def run_on(self, index: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> "Future[Any]":
        """Run a function on another member."""
