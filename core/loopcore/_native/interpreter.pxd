# Declares interpreter.h; interpreter.py has the same functions in Python.

cdef extern from "loopcore/_native/interpreter.h":
    object run_in_context "loopcore_run_in_context" (object context, object callback, tuple args)
    object call_in_context "loopcore_call_in_context" (object context, object callback, object args)
    object send_or_throw "loopcore_send_or_throw" (object coro, object thrown, object context, int *how)
    void stop_with "loopcore_stop_with" (object value) noexcept
    double monotonic "loopcore_monotonic" () noexcept
    long long monotonic_ns "loopcore_monotonic_ns" () noexcept
    long long to_ns "loopcore_to_ns" (double seconds) noexcept
    Py_ssize_t identity "loopcore_identity" (object what) noexcept
    bint is_method "loopcore_is_method" (object method, object function, object owner) noexcept
    unsigned long get_ident "PyThread_get_thread_ident" () noexcept
    object copy_context "PyContext_CopyCurrent" ()
