cimport cython


@cython.final
cdef class LoopStats:
    cdef public long long callbacks
    cdef public long long events
    cdef public long long polls_skipped
    cdef public long long timers_fired
    cdef public long long threadsafe_posts
    cdef public long long task_steps
    cdef public long long tasks_created
    cdef public long long tasks_finished
    cdef public long long tasks_failed
    cdef public long long tasks_cancelled
    cdef public long long tasks_destroyed
    cdef public long long budget_yields
    cdef public long long starvations
    cdef public long long connections_accepted
    cdef public long long connections_refused
