"""A `select.kqueue` for Linux, for tests only: BSD semantics over epoll, pidfd, timerfd and eventfd.

It stands in for what CPython's `select` has on macOS and the BSDs (`kqueue`, `kevent`, `KQ_*`), so that the kqueue
backend runs where there is no kqueue. It is written from the manual pages and proves no more than that backend and fake
read them alike: what passes on it is *simulated*. `tests/backends/kqueues.py` says how tests are told to use it.

Faithful: READ and WRITE are knotes of their own; a knote goes when its number is closed, though a copy keeps the file
open; EV_EOF with what is left to read in `data`; an error in `fflags`, with SO_ERROR kept for the socket's owner; the
backlog in `data` of a listening socket; EV_ADD, DELETE, ENABLE, DISABLE, ONESHOT, CLEAR, DISPATCH and RECEIPT; a change
that fails is an event flagged EV_ERROR while there is room, else the error of the call; knotes take turns when the list
is short; regular files fire until their end; the descriptor of a kqueue can be polled, and watched by another kqueue; a
forked child does not inherit it, and the object does not know that, as before CPython 3.11.8; filters PROC (NOTE_EXIT),
TIMER and USER; what a call does to the tables is one step, in whose middle no other change is made.

Not faithful: the number in `fflags` is the likely one, as Linux tells it once only; a number that was closed and given
to a copy of the same file keeps its knotes; a regular file that grows is noticed within 10 ms; a socket that was never
connected is as in BSD only until its first error; a change that a finalizer or a signal handler asks for in the middle
of a step, which here is Python, is made before the next step, and its failure is not reported; the filters VNODE,
SIGNAL and AIO do not exist.

Where the systems differ, `dialects.py` has a row for each. `faults.py` makes things go wrong on purpose.
"""
