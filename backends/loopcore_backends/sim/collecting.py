"""The garbage collector in a simulation: it runs at fixed steps, since finalizers are part of the program.

When CPython collects by itself depends on what ran in the process before.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

EVERY: Final = 1_000
"""Steps of the world between two collections: `if world.steps % EVERY == 0: gc.collect()`."""


@contextmanager
def collected_steadily() -> Iterator[None]:
    """Switch automatic collection off for the body of the `with` statement, and collect what the body leaves.

    Objects made before are exempt from collection meanwhile (gc.freeze), so one takes about as long as the simulation
    has objects. Not where the program has called gc.freeze itself: gc.unfreeze would undo that.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    freezes = hasattr(gc, "freeze") and not gc.get_freeze_count()  # PyPy has neither
    if freezes:
        gc.freeze()
    try:
        yield
    finally:
        try:
            gc.collect()
        finally:
            if freezes:
                gc.unfreeze()
            if was_enabled:
                gc.enable()
