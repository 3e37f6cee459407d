"""Threads of simulated programs: real threads, of which one runs at a time.

A thread of the program is a thread of the operating system, so `threading.local`, contexts and running loops are
Python's own. `baton` schedules them, `locks` has what they block on, `calls` replaces Python's functions, `explaining`
describes a deadlock, and `watching` finds a thread that blocks on something real.
"""
