# Declares recording.h; recording.py has the same functions in Python.

cdef extern from "loopcore/_native/recording.h":
    unsigned long long counter "loopcore_counter" () noexcept
    unsigned long long thread_cpu_ns "loopcore_thread_cpu_ns" () noexcept
    unsigned long long *words "loopcore_words" (object buffer) except NULL
    unsigned long long address_of_code "loopcore_address_of_code" (object what) noexcept
