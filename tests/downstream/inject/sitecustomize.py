"""Run by every Python that a suite starts, as its folder is on PYTHONPATH: pytest, its workers, servers, children."""

import os

if "DOWNSTREAM_LOOP" in os.environ:
    import chosen_loop

    chosen_loop.install(os.environ["DOWNSTREAM_LOOP"])
