"""Threads of simulated programs: real threads, of which one runs at a time.

A thread of the program is a thread of the operating system, so `threading.local`, contexts and running loops are
Python's own. `baton` has who runs and who waits, `locks` what they wait for, `calls` what stands in for Python's
functions.
"""
