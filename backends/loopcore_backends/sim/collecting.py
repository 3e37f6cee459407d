"""The garbage collector in a simulation: it runs at fixed steps, since finalizers are part of the program.

When automatic collection runs depends on what ran in the process before.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

EVERY: Final = 1_000
"""Waits of the world between two collections."""

LEFT_OVER: Final = 16
"""Simulations between two collections of their leftovers: tapes and worlds, in cycles. gc.unfreeze moves it to
the oldest generation, which a search hardly ever collects."""

_OF_PYTHON: Final = 2_000
"""With as many frozen objects, the program has called gc.freeze. Python 3.12 freezes a few hundred when it starts."""

_is_frozen = False
"""The program has called gc.freeze. Remembered, since counting many frozen objects takes milliseconds."""

_simulations = 0


@contextmanager
def collected_steadily() -> Iterator[None]:
    """Switch automatic collection off for the body of the `with` statement, and collect what the body leaves.

    Objects made before are exempt from collection meanwhile (gc.freeze), so one takes about as long as the simulation
    has objects. Not where the program has called gc.freeze itself: gc.unfreeze would undo that.
    """
    global _simulations
    _simulations += 1
    if _simulations % LEFT_OVER == 0:
        gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    freezes = _may_freeze()
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


def _may_freeze() -> bool:
    global _is_frozen
    if not _is_frozen:
        _is_frozen = not hasattr(gc, "freeze") or gc.get_freeze_count() >= _OF_PYTHON  # PyPy has neither
    return not _is_frozen
