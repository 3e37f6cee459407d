"""Functions that the compiled build takes from C and the pure build implements in Python.

`interpreted.py` and the `.pxd` headers define the same functions; a kernel module picks one by
`cython.compiled`. Nothing else in loopcore is written twice.
"""
