"""Run pytest on a build for sanitizers, and show what they report.

    CFLAGS="-fsanitize=address,undefined -fno-omit-frame-pointer -g -O1" LDFLAGS="-fsanitize=address,undefined" \\
        LOOPCORE_COMPILE=require python -m pip install ".[test]"
    python -m tests.sanitizers -n auto tests/unit/kernel
    python -m tests.sanitizers --program tests.soak.traffic epoll --seconds 60

`tox -e sanitizers` does both, with AddressSanitizer and UndefinedBehaviorSanitizer. The interpreter itself is the usual
one, so the sanitizers' libraries have to be there before it: LD_PRELOAD names them, and what it allocates is malloc's
(PYTHONMALLOC), because the arenas of Python hide a use after free. Leaks are not looked for: an interpreter never frees
all it has. The first report ends its process, and so fails the test; it stands in the output as it comes, because
pytest leaves file descriptor 2 alone (`--capture=sys`).

    python -m tests.sanitizers --threads tests/threads

does the same for ThreadSanitizer. The interpreter must have been built for it (`.ci/free-threaded`), and loopcore
compiled with -fsanitize=thread by the same compiler: `tox -e tsan` does that. tests/threads/suppressions.txt lists the
reports that are not about loopcore.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so")
"""libstdc++ so that exceptions of other extension modules find the functions that AddressSanitizer wraps."""
OPTIONS = {
    "LOOPCORE_TEST_PATIENCE": "60",
    "PYTHONMALLOC": "malloc",
    "ASAN_OPTIONS": "detect_leaks=0:handle_segv=2:allocator_may_return_null=1:quarantine_size_mb=64",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}

SUPPRESSIONS = Path(__file__).parent / "threads" / "suppressions.txt"
THREAD_OPTIONS = {
    "LOOPCORE_TEST_PATIENCE": "60",
    # By default a process that forked with threads may start none.
    "TSAN_OPTIONS": f"halt_on_error=1:die_after_fork=0:history_size=4:suppressions={SUPPRESSIONS}",
}


def libraries() -> list[str]:
    """Return the sanitizers' libraries of the compiler that builds extensions. Raises SystemExit if it has none."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    found = []
    for name in LIBRARIES:
        said = subprocess.run([*compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True)
        path = Path(said.stdout.strip())
        if not path.is_absolute():  # it echoes a name that it does not know
            sys.exit(f"{shlex.join(compiler)} has no {name}: install gcc and its sanitizers, or set CC")
        found.append(str(path.resolve()))
    return found


def main(arguments: list[str]) -> None:
    """Become pytest with `arguments`, or the program that follows `--program`."""
    if arguments[:1] == ["--threads"]:
        # A dump of a slow test's stacks would be reported: it reads the frames of threads that run.
        options = ["--capture=sys", "--override-ini=faulthandler_timeout=0"]
        command = [sys.executable, "-m", "pytest", *options, *arguments[1:]]
        os.execve(sys.executable, command, os.environ | THREAD_OPTIONS)
    program = arguments[1:] if arguments[:1] == ["--program"] else ["pytest", "--capture=sys", *arguments]
    environment = os.environ | OPTIONS | {"LD_PRELOAD": " ".join(libraries())}
    os.execve(sys.executable, [sys.executable, "-m", *program], environment)


if __name__ == "__main__":
    main(sys.argv[1:])
