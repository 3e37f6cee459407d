# A heap of deadlines in C, for the compiled timer heap (docs/adr/0026). `interpreted_deadlines.py` has the twins in Python.
#
# Deadline and sequence stand beside the pointer, so that a comparison touches the array and never a timer: among 100,000
# of them each timer would be a cache miss. Four children a node: half the levels of a binary heap, and the children lie
# side by side. The pointers are borrowed; who calls keeps the timers alive as long as they are in here. All is inline,
# because each module that knows the timer heap includes it.

cdef extern from *:
    """
    typedef struct {
        double when;
        long long sequence;
        PyObject *timer;
    } loopcore_deadline;

    typedef struct {
        loopcore_deadline *items;
        Py_ssize_t count;
        Py_ssize_t room;
    } loopcore_deadlines, *Deadlines;

    #define LOOPCORE_FEW_DEADLINES 64

    static inline loopcore_deadlines *
    loopcore_make_deadlines(void)
    {
        loopcore_deadlines *made = PyMem_RawCalloc(1, sizeof(loopcore_deadlines));
        if (made == NULL) {
            PyErr_NoMemory();
        }
        return made;
    }

    static inline void
    loopcore_free_deadlines(loopcore_deadlines *heap)
    {
        if (heap != NULL) {
            PyMem_RawFree(heap->items);
            PyMem_RawFree(heap);
        }
    }

    static inline int
    loopcore_resize_deadlines(loopcore_deadlines *heap, Py_ssize_t room)
    {
        loopcore_deadline *moved = PyMem_RawRealloc(heap->items, (size_t)room * sizeof(loopcore_deadline));
        if (moved == NULL) {
            return -1;
        }
        heap->items = moved;
        heap->room = room;
        return 0;
    }

    /* Make sure that one more fits. */
    static inline int
    loopcore_reserve_deadline(loopcore_deadlines *heap)
    {
        if (heap->count == heap->room
                && loopcore_resize_deadlines(heap, heap->room ? 2 * heap->room : LOOPCORE_FEW_DEADLINES) < 0) {
            PyErr_NoMemory();
            return -1;
        }
        return 0;
    }

    /* Give back what a crowd took, by halves. */
    static inline void
    loopcore_shrink_deadlines(loopcore_deadlines *heap)
    {
        Py_ssize_t room = heap->room;
        while (room > LOOPCORE_FEW_DEADLINES && heap->count < room / 4) {
            room /= 2;
        }
        if (room != heap->room) {
            (void)loopcore_resize_deadlines(heap, room);  /* refused, it stays as large as it is */
        }
    }

    static inline int
    loopcore_fires_before(const loopcore_deadline *one, const loopcore_deadline *other)
    {
        return one->when < other->when || (one->when == other->when && one->sequence < other->sequence);
    }

    static inline void
    loopcore_push_deadline(loopcore_deadlines *heap, double when, long long sequence, PyObject *timer)
    {
        loopcore_deadline *items = heap->items;
        Py_ssize_t at = heap->count++;
        while (at > 0) {
            Py_ssize_t above = (at - 1) >> 2;
            if (items[above].when <= when) {
                break;  /* a new timer is the youngest: at an equal deadline it stays below */
            }
            items[at] = items[above];
            at = above;
        }
        items[at].when = when;
        items[at].sequence = sequence;
        items[at].timer = timer;
    }

    static inline void
    loopcore_sink_deadline(loopcore_deadline *items, Py_ssize_t count, Py_ssize_t at, loopcore_deadline sinking)
    {
        for (;;) {
            Py_ssize_t child = 4 * at + 1;
            if (child >= count) {
                break;
            }
            Py_ssize_t last = child + 4 < count ? child + 4 : count;
            Py_ssize_t first = child;
            while (++child < last) {
                if (loopcore_fires_before(&items[child], &items[first])) {
                    first = child;
                }
            }
            if (!loopcore_fires_before(&items[first], &sinking)) {
                break;
            }
            items[at] = items[first];
            at = first;
        }
        items[at] = sinking;
    }

    /* Take out the first; there must be one. */
    static inline PyObject *
    loopcore_pop_deadline(loopcore_deadlines *heap)
    {
        PyObject *timer = heap->items[0].timer;
        heap->count--;
        if (heap->count) {
            loopcore_sink_deadline(heap->items, heap->count, 0, heap->items[heap->count]);
        }
        loopcore_shrink_deadlines(heap);
        return Py_NewRef(timer);
    }

    static inline double
    loopcore_first_deadline(loopcore_deadlines *heap)
    {
        return heap->count ? heap->items[0].when : Py_HUGE_VAL;
    }

    static inline Py_ssize_t
    loopcore_count_deadlines(const loopcore_deadlines *heap)
    {
        return heap->count;
    }

    static inline PyObject *
    loopcore_timer_at(loopcore_deadlines *heap, Py_ssize_t position)
    {
        return Py_NewRef(heap->items[position].timer);
    }

    static inline void
    loopcore_keep_deadline(loopcore_deadlines *heap, Py_ssize_t to, Py_ssize_t position)
    {
        heap->items[to] = heap->items[position];
    }

    /* Keep the first `count`, in whatever order they are, and make them a heap. */
    static inline void
    loopcore_cut_deadlines(loopcore_deadlines *heap, Py_ssize_t count)
    {
        heap->count = count;
        for (Py_ssize_t at = (count - 2) >> 2; count > 1 && at >= 0; at--) {
            loopcore_sink_deadline(heap->items, count, at, heap->items[at]);
        }
        loopcore_shrink_deadlines(heap);
    }
    """
    ctypedef struct loopcore_deadlines:
        pass
    ctypedef loopcore_deadlines *Deadlines

    Deadlines make_deadlines "loopcore_make_deadlines" () except NULL
    void free_deadlines "loopcore_free_deadlines" (Deadlines heap) noexcept
    int reserve_deadline "loopcore_reserve_deadline" (Deadlines heap) except -1
    void push_deadline "loopcore_push_deadline" (Deadlines heap, double when, long long sequence, object timer) noexcept
    object pop_deadline "loopcore_pop_deadline" (Deadlines heap)
    double first_deadline "loopcore_first_deadline" (Deadlines heap) noexcept
    Py_ssize_t count_deadlines "loopcore_count_deadlines" (Deadlines heap) noexcept
    object timer_at "loopcore_timer_at" (Deadlines heap, Py_ssize_t position)
    void keep_deadline "loopcore_keep_deadline" (Deadlines heap, Py_ssize_t to, Py_ssize_t position) noexcept
    void cut_deadlines "loopcore_cut_deadlines" (Deadlines heap, Py_ssize_t count) noexcept
