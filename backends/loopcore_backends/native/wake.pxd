# The write that wakes an eventfd(2), without letting go of the GIL, as `os.eventfd_write` does.
#
# The descriptor does not block, so the write takes a microsecond. With the GIL free in the meantime, the loop's thread
# takes it, and who has waked it stands still in the middle of what it does: the thread of a pool is then not back at
# its queue when the loop has the next job, and the pool starts another one.

cdef extern from *:
    """
    #include <stdint.h>
    #include <unistd.h>

    static inline int
    loopcore_ring(int fd)
    {
        const uint64_t one = 1;
        return write(fd, &one, sizeof one) == (ssize_t)sizeof one;
    }
    """
    bint ring "loopcore_ring" (int fd) noexcept
