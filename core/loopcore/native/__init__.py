"""What the compiled build takes from C and the pure build says in Python.

`interpreted.py` and the `.pxd` headers hold the same functions; a kernel module picks one by
`cython.compiled`. Nothing else in loopcore is written twice.
"""
