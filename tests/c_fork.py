"""A fork past Python's hooks, as C code forks."""

import ctypes
import sys
import time


def fork() -> int:
    """Fork; return the child's process id, and 0 in the child.

    A thread that asks for the GIL at the moment of the fork would ask for ever in the child, where it does not exist.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60.0)
    time.sleep(0.01)  # a thread that asks now gets it
    child: int = ctypes.PyDLL(None).fork()
    if child:
        sys.setswitchinterval(interval)
    return child
