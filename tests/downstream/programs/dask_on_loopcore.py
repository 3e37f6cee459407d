"""dask's command line on loopcore: `python dask_on_loopcore.py scheduler`, `python dask_on_loopcore.py worker ADDRESS`.

A nanny starts its worker with multiprocessing's "spawn", which imports this file again in the new process: the policy
is installed there too, before dask makes its loop.
"""

from dask.__main__ import main

import loopcore

loopcore.install()

if __name__ == "__main__":
    main()
