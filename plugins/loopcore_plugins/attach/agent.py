"""Agent: the code that answers inside the process under inspection. `injection` sends it there as a code object.

It is self-contained: no import but modules that every asyncio program has loaded, no file, no hook, no class. The main
thread runs `start`, which takes well under a millisecond; the rest happens in a thread that Python's `threading` does
not list. That thread connects to the command's socket, answers questions (one JSON object a line, as in
`loopcore_plugins.inspect.protocol`), and ends when the command closes the connection, dies, or is silent for
`SILENCE` seconds. Then its socket and its functions are gone.

The thread needs the GIL as any other. It releases it after each few tasks, so a listing of thousands never
holds the loop for longer than that.
"""

import _signal  # type: ignore[import-not-found]  # `signal` without its enums
import _socket
import _thread
import gc
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # asyncio does not load typing
    from typing import Any
else:
    Any = object  # before Python 3.14, annotations are evaluated

SILENCE = 60.0
"""Seconds without a question after which the agent leaves."""
PACE = 0.1
"""Seconds between two probes of a loop's delay, while a client watches."""
STALL = 0.2
"""Seconds after which a probe that has not run shows a stall."""
LOOP_PATIENCE = 5.0
"""Seconds to wait for a loop to run something."""
BATCH = 20
"""Tasks to look at before the GIL is released."""
MOST_TASKS = 10_000
DEEPEST = 100
ESCAPES = {number: f"\\u{number:04x}" for number in (*range(32), 34, 92)}


def start(path: str, folder: str, identity: tuple[int, int], uid: int) -> None:
    """Start the agent's thread. Thread: the main one, between two bytecodes of the program."""
    events = sys.modules.get("asyncio.events")
    running = None if events is None else events._get_running_loop()
    # The thread inherits the mask: a signal must interrupt the wait of the program's threads, not the agent's. The
    # functions are bound here because a thread that ends at once clears the globals.
    set_mask, how = _signal.pthread_sigmask, _signal.SIG_SETMASK
    mask = set_mask(_signal.SIG_BLOCK, _signal.valid_signals())
    try:
        _thread.start_new_thread(run, (path, folder, identity, uid, running, _thread.get_ident()))
    finally:
        set_mask(how, mask)


def run(path: str, folder: str, identity: tuple[int, int], uid: int, running: Any, main_thread: int) -> None:
    """Connect, answer until the client has gone, and leave nothing behind. `uid` is the user of the command."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.settimeout(SILENCE)
        sock.connect(path)
        credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        if int.from_bytes(credentials[4:8], sys.byteorder) != uid:
            raise PermissionError("another user has taken the place of a command that has gone")
        place = (folder, identity)
        serve(sock, {"sock": sock, "place": place, "main": (running, main_thread), "probes": {}, "watching": False})
    except OSError:  # the command has gone, perhaps before this began, or is silent
        pass
    finally:
        sock.close()
        remove(folder, identity)
        globals().clear()


def remove(folder: str, identity: tuple[int, int]) -> None:
    """Remove the folder of the command, which may have been killed; `identity` is its device and number."""
    try:
        number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        status = os.fstat(number)
        if (status.st_dev, status.st_ino) == identity:  # another user may have taken the name of one that is gone
            for name in os.listdir(number):
                os.unlink(name, dir_fd=number)
            os.rmdir(folder)
    except OSError:
        pass
    finally:
        os.close(number)


def serve(sock: Any, state: dict[str, Any]) -> None:
    """Answer questions; between them probe the loops, if the client watches. Raises OSError at the end."""
    asks = {
        "loops": loops,
        "ps": ps,
        "stacks": stacks,
        "watch": watch,
        "sample": sample,
        "recorder": recorder,
        "record": record,
    }
    rest = b""
    heard = probed = time.monotonic()
    while True:
        now = time.monotonic()
        if state["watching"] and now - probed >= PACE:
            probe_all(state)
            probed = now
        sock.settimeout(PACE if state["watching"] else SILENCE)
        try:
            received = sock.recv(4096)
        except TimeoutError:
            if time.monotonic() - heard >= SILENCE:
                return
            continue
        if not received:
            return
        heard = time.monotonic()
        *lines, rest = (rest + received).split(b"\n")
        for line in lines:
            # A question is `ASK NUMBER TEXT`: no parser of JSON need be imported here.
            ask, number, text = line.decode().split(" ", 2)
            try:
                reply = {"answer": asks[ask](state, int(number), text)}
            except OSError:
                raise
            except Exception as exc:
                reply = {"error": str(exc) if type(exc) is LookupError else f"{type(exc).__name__}: {exc}"}
            sock.settimeout(SILENCE)
            sock.sendall(encode(reply).encode("utf-8", "replace") + b"\n", _socket.MSG_NOSIGNAL)


def encode(value: Any) -> str:
    """Return `value` as JSON."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode(str(key))}:{encode(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(encode, value)) + "]"
    if isinstance(value, str):
        return '"' + value.translate(ESCAPES) + '"'
    return "null" if value is None else "true" if value is True else "false" if value is False else repr(value)


# Loops and threads


def find_loops(state: dict[str, Any]) -> list[tuple[Any, int]]:
    """Return the running loops and their threads, the main thread's first.

    The main thread's own is what asyncio calls the running loop. Others are found in the frames of their thread: as
    `self` of `run_forever`, in the `asyncio.Runner` that runs them, or, for loops written in C, in the caller's locals.
    """
    found: list[tuple[Any, int]] = []
    running, main_thread = state["main"]
    if running is not None and runs(running):
        found.append((running, main_thread))
    if "asyncio" not in sys.modules:
        return found
    kind, runner = sys.modules["asyncio"].AbstractEventLoop, sys.modules["asyncio"].Runner
    for ident, innermost in sys._current_frames().items():
        if ident == _thread.get_ident() or any(thread == ident for _, thread in found):
            continue
        frame: Any = innermost
        while frame is not None:
            values = list(frame.f_locals.values())
            values += [value._loop for value in values if type(value) is runner]
            loop = next((value for value in values if issubclass(type(value), kind) and runs(value)), None)
            if loop is not None and getattr(loop, "_thread_id", ident) == ident:
                if all(loop is not known for known, _ in found):
                    found.append((loop, ident))
                break
            frame = frame.f_back
    return found


def runs(loop: Any) -> bool:
    try:
        return bool(loop.is_running())
    except Exception:  # an object that is not complete, or only plays a loop
        return False


def threads_of_process() -> dict[int, dict[str, Any]]:
    """Return the threads by their identity, with the stacks of those that run Python."""
    listed = dict(getattr(sys.modules.get("threading"), "_active", {}))
    frames = sys._current_frames()
    return {
        ident: {
            "name": listed[ident].name if ident in listed else f"thread {ident}",
            "ident": ident,
            "native_id": listed[ident].native_id if ident in listed else None,
            "is_loop": False,
            "stack": thread_stack(frames[ident]),
        }
        for ident in frames
        if ident != _thread.get_ident()
    }


def thread_stack(frame: Any) -> list[list[Any]]:
    """Return the places of a thread, outermost first."""
    places: list[list[Any]] = []
    while frame is not None and len(places) < DEEPEST:
        places.append([frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_qualname])
        frame = frame.f_back
    return places[::-1]


def loops(state: dict[str, Any], number: int, text: str) -> list[dict[str, Any]]:
    """Describe the loops."""
    listed = threads_of_process()
    described = []
    for index, (loop, ident) in enumerate(find_loops(state), 1):
        module = type(loop).__module__.partition(".")[0]
        described.append(
            {
                "pid": os.getpid(),
                "loop": index,
                "program": " ".join(sys.argv) or "python",
                "python": f"{sys.implementation.name} {sys.version.split()[0]}",
                "backend": f"loopcore {loop.backend.name}" if module == "loopcore" else module,
                "native_id": listed.get(ident, {}).get("native_id"),
            }
        )
    return described


def loop_numbered(state: dict[str, Any], number: int) -> tuple[Any, int]:
    found = find_loops(state)
    if not 1 <= number <= len(found):
        raise LookupError(f"loop {number} does not run any more")
    return found[number - 1]


# Tasks


def ps(state: dict[str, Any], number: int, text: str) -> dict[str, Any]:
    """List the tasks of a loop."""
    return tasks_of(loop_numbered(state, number)[0])


def tasks_of(loop: Any) -> dict[str, Any]:
    tasks = list(sys.modules["asyncio"].all_tasks(loop))
    current = sys.modules["asyncio"].current_task(loop)
    shown = []
    for index, task in enumerate(tasks[:MOST_TASKS]):
        if index % BATCH == 0:
            time.sleep(0)  # releases the GIL
        if not task.done():
            shown.append(describe(task, task is current))
    return {"running": True, "tasks": shown, "left_out": max(len(tasks) - MOST_TASKS, 0)}


def stacks(state: dict[str, Any], number: int, text: str) -> dict[str, Any]:
    """List a loop's tasks and its thread; with the first loop, or without any, also the threads without a loop."""
    listed = threads_of_process()
    found = find_loops(state)
    for _, ident in found:
        if ident in listed:
            listed[ident]["is_loop"] = True
    if not found:
        return {"threads": list(listed.values()), "running": False, "tasks": [], "left_out": 0}
    own = loop_numbered(state, number)[1]
    others = [each for ident, each in listed.items() if ident != own and number == 1 and not each["is_loop"]]
    return {"threads": [listed[own], *others], **ps(state, number, text)}


def describe(task: Any, is_current: bool) -> dict[str, Any]:
    """Return what is known of a task, as the inspect plugin's `ps` does."""
    coro = task.get_coro()
    waiter = getattr(task, "_fut_waiter", None)
    state = "running" if is_current else "ready" if waiter is None or waiter.done() else "waiting"
    stack = coroutine_stack(coro)
    return {
        "id": id(task),
        "name": task.get_name(),
        "coroutine": str(getattr(coro, "__qualname__", None) or type(coro).__qualname__),
        "state": state,
        "stack": stack,
        "waits_for": describe_wait(waiter, stack) if state == "waiting" else "",
        "awaited_by": awaiters(task),
        "age": None,
    }


def coroutine_stack(coro: Any) -> list[list[Any]]:
    """Return the places of a coroutine and its awaits, outermost first."""
    places: list[list[Any]] = []
    while coro is not None and len(places) < DEEPEST:
        for prefix, inner in (("cr", "cr_await"), ("gi", "gi_yieldfrom"), ("ag", "ag_await")):
            if type(coro).__name__ in ("coroutine", "generator", "async_generator") and hasattr(coro, inner):
                frame, code = getattr(coro, f"{prefix}_frame"), getattr(coro, f"{prefix}_code")
                if frame is not None:
                    places.append([code.co_filename, frame.f_lineno or 0, code.co_qualname])
                coro = getattr(coro, inner)
                break
        else:
            if hasattr(coro, "_asyncio_future_blocking"):
                break
            # The object from `__await__`, `asend` or `anext` hides the coroutine.
            kinds = ("coroutine", "generator", "async_generator")
            coro = next((each for each in gc.get_referents(coro) if type(each).__name__ in kinds), None)
    return places


def describe_wait(waiter: Any, stack: list[list[Any]]) -> str:
    if hasattr(waiter, "get_coro"):
        return f"task {waiter.get_name()!r}"
    children = getattr(waiter, "_children", None)
    if children:
        return f"gather of {len(children)}"
    return str(stack[-1][2]) if stack else type(waiter).__qualname__


def awaiters(task: Any) -> list[int]:
    """Return the ids of the tasks that await `task`, directly or through futures as those of `gather`."""
    found: dict[int, None] = {}
    seen = {id(task)}
    pending = list(getattr(task, "_asyncio_awaited_by", None) or ())
    while pending:
        outer = pending.pop()
        if id(outer) in seen:
            continue
        seen.add(id(outer))
        if hasattr(outer, "get_coro"):
            found[id(outer)] = None
        else:
            pending += getattr(outer, "_asyncio_awaited_by", None) or ()
    return list(found)


# Figures


def watch(state: dict[str, Any], number: int, text: str) -> bool:
    """Begin to probe all loops."""
    state["watching"] = True
    probe_all(state)
    return True


def probe_all(state: dict[str, Any]) -> None:
    """Post a callback to each loop that has run its last one. One that has not for long is blocked: note where."""
    for loop, ident in find_loops(state):
        probe = probe_of(state, loop)
        posted = probe["posted"]
        if posted is not None:
            if time.monotonic() - posted > STALL and probe["stack"] is None:
                probe["stack"] = thread_stack(sys._current_frames().get(ident))
            continue
        probe["posted"] = time.monotonic()

        # Everything is bound as a default: the callback may run after the globals are cleared.
        def measure(probe: dict[str, Any] = probe, now: Any = time.monotonic) -> None:
            delay = now() - probe["posted"]
            probe["delays"].append(delay)
            if probe["stack"] is not None:
                probe["stalls"].append([delay, probe["stack"]])
            probe["posted"] = probe["stack"] = None

        try:
            loop.call_soon_threadsafe(measure)
        except RuntimeError:  # closed in the meantime
            del state["probes"][id(loop)]


def probe_of(state: dict[str, Any], loop: Any) -> dict[str, Any]:
    fresh = {"loop": loop, "posted": None, "stack": None, "delays": [], "stalls": []}
    probe: dict[str, Any] = state["probes"].setdefault(id(loop), fresh)
    return probe


def sample(state: dict[str, Any], number: int, text: str) -> dict[str, Any]:
    """Return the figures since the last sample."""
    listed = threads_of_process()
    return {
        "now": time.time(),
        "loops": [figures_of(loop, probe_of(state, loop), listed.get(ident)) for loop, ident in find_loops(state)],
        "threads": list(listed.values()),
        "agent": _thread.get_native_id(),
    }


def figures_of(loop: Any, probe: dict[str, Any], thread: dict[str, Any] | None) -> dict[str, Any]:
    """Return the figures of a loop, and mark its thread."""
    if thread is not None:
        thread["is_loop"] = True
    posted, delays, stalls = probe["posted"], probe["delays"], probe["stalls"]
    probe["delays"], probe["stalls"] = [], []
    tasks = tasks_of(loop)
    sites: dict[tuple[str, str, int, str], int] = {}
    for task in tasks["tasks"]:
        file, line, _ = place_in_program(task["stack"])
        site = task["coroutine"], file, line, task["state"] if not task["stack"] else task["stack"][-1][2]
        sites[site] = sites.get(site, 0) + 1
    return {
        "delays": delays,
        "stalls": stalls,
        "blocked": None if posted is None or probe["stack"] is None else time.monotonic() - posted,
        "blocked_stack": probe["stack"],
        "ready": length_of(loop, "_ready"),
        "timers": length_of(loop, "_scheduled"),
        "tasks": len(tasks["tasks"]) + tasks["left_out"],
        "sites": [[*site, count] for site, count in sites.items()],
    }


def length_of(loop: Any, name: str) -> int | None:
    """Return the length of a queue of the loop, None if it cannot be seen."""
    queue: Any = getattr(loop, name, None)
    return len(queue) if hasattr(queue, "__len__") else None


def place_in_program(stack: list[list[Any]]) -> list[Any]:
    """Return the innermost place outside the standard library."""
    library = os.path.dirname(os.__file__) + "/"
    for place in stack[::-1]:
        if "site-packages" in place[0] or not place[0].startswith((library, "<frozen")):
            return place
    return stack[-1] if stack else ["", 0, "-"]


# The recorder


def in_loop(loop: Any, function: Any) -> None:
    """Call `function` in the loop's thread. Raises LookupError, and never calls it, if the loop comes too late."""
    done = _thread.allocate_lock()
    done.acquire()
    outcome: list[Any] = []

    def call() -> None:
        if not outcome:
            try:
                function()
            except Exception as exc:
                outcome.append(exc)
        done.release()

    loop.call_soon_threadsafe(call)
    if not done.acquire(timeout=LOOP_PATIENCE):
        outcome.append("late")
        raise LookupError(f"the loop has run nothing for {LOOP_PATIENCE:g} s: `loopcore stacks` shows what blocks it")
    if outcome:
        raise outcome[0]


def recorder_of(loop: Any) -> Any:
    plugins = [plugin for _, plugin in loop.probes.plugins()]
    return next((each for each in plugins if type(each).__module__.startswith("loopcore_plugins.recorder")), None)


def recorder(state: dict[str, Any], number: int, text: str) -> bool:
    """Return whether a recorder is on. The loop must be loopcore's."""
    return recorder_of(loop_numbered(state, number)[0]) is not None


def record(state: dict[str, Any], number: int, text: str) -> bool:
    """Wait for some seconds and write a recording; `text` is the seconds and the path. The loop must be loopcore's.

    If no recorder is on, one is until the end, or, if the loop is blocked then, until it runs again.
    """
    loop, _ = loop_numbered(state, number)
    try:
        from pathlib import Path

        from loopcore_plugins.recorder import Recorder
    except ImportError as exc:
        raise LookupError(f"the loopcore of that process has no recorder: {exc}") from None
    seconds, name = text.split(" ", 1)
    present = recorder_of(loop)
    # Ours writes a dump only when asked, and to `name`: its `dumps` would be in the working directory.
    used = Recorder(dumps=Path(name), most=0) if present is None else present
    try:
        if present is None:
            in_loop(loop, lambda: loop.probes.register(used, "recorder"))
        wait_for(state["sock"], float(seconds))
        folder, identity = state["place"]
        status = os.stat(folder, follow_symlinks=False)
        if (status.st_dev, status.st_ino) != identity:
            raise ConnectionResetError("the command has gone, and its folder is another")
        try:
            used.dump(Path(name), reason="command")
        except OSError as exc:
            raise LookupError(f"the recording cannot be written: {exc}") from None
    finally:
        if present is None and not loop.is_closed():
            loop.call_soon_threadsafe(forget, loop, used)
    return True


def forget(loop: Any, plugin: Any) -> None:
    """Unregister `plugin`, if it is registered. Uses no globals: it may run after they are cleared."""
    if any(each is plugin for _, each in loop.probes.plugins()):
        loop.probes.unregister(plugin)


def wait_for(sock: Any, seconds: float) -> None:
    """Wait, unless the command ends before. Raises OSError if it does."""
    if seconds:
        sock.settimeout(seconds)
        try:
            sock.recv(1)  # the command says nothing while it waits for the answer
            raise ConnectionResetError("the command has gone")
        except TimeoutError:
            pass
