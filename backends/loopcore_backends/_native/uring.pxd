# Declares uring.h; uring.py has the same functions in Python.

cdef extern from "loopcore_backends/_native/uring.h":
    long long ring_setup "loopcore_uring_setup" (unsigned int entries, unsigned long long parameters)
    long long ring_enter "loopcore_uring_enter" (
        int fd, unsigned int submit, unsigned int complete, unsigned int flags, unsigned long long argument, size_t size
    )
    long long ring_register "loopcore_uring_register" (
        int fd, unsigned int opcode, unsigned long long argument, unsigned int count
    )
    long long map_ring "loopcore_uring_map" (int fd, size_t length, long long offset)
    void unmap_ring "loopcore_uring_unmap" (unsigned long long address, size_t length)
    object internet_address "loopcore_uring_internet" (unsigned long long where)
    int family_of "loopcore_uring_family" (int fd)
    long long now_ns "loopcore_uring_now" ()
    long long to_ns "loopcore_uring_to_ns" (double seconds)
    unsigned short *words16 "loopcore_uring_words16" (unsigned long long address, Py_ssize_t count)
    unsigned int *words32 "loopcore_uring_words32" (unsigned long long address, Py_ssize_t count)
    unsigned long long *words64 "loopcore_uring_words64" (unsigned long long address, Py_ssize_t count)
    int *ints32 "loopcore_uring_ints32" (unsigned long long address, Py_ssize_t count)
    unsigned int load_acquire "loopcore_uring_load" (unsigned int *where)
    void store_release "loopcore_uring_store" (unsigned int *where, unsigned int value)
    void store_release16 "loopcore_uring_store16" (unsigned short *where, unsigned int value)
    object hold "loopcore_uring_hold" (object item)
    unsigned long long address_of "loopcore_uring_address" (object held) except? 0
    Py_ssize_t length_of "loopcore_uring_length" (object held)
    object room "loopcore_uring_room" (Py_ssize_t size)
    bytes cut "loopcore_uring_cut" (object room, Py_ssize_t size)
    bytes take "loopcore_uring_take" (unsigned long long address, Py_ssize_t size)
    void poke "loopcore_uring_poke" (unsigned long long address, bytes data)

cdef extern from "Python.h":
    int check_signals "PyErr_CheckSignals" () except -1
    unsigned long get_ident "PyThread_get_thread_ident" ()
