"""Ports: what a backend implements.

`readiness` and `completion` are the two protocols, `interest` and `operations` their vocabulary, `direct` a compiled
base for `wait`, `clock` the time. `check` tells whether an object has what its port requires.

Imports errors and tracebacks only. A backend imports this folder and these two; a compiled one also `_native`.
"""

from loopcore.tracebacks import show_sources

show_sources(__name__, __path__)
