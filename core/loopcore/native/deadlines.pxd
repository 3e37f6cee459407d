# A heap of deadlines in C, for the compiled timer heap (docs/adr/0005). The Python twins are in
# `interpreted_deadlines.py`.
#
# An item holds deadline and sequence as well as the pointer, so that a comparison touches the array and never a timer:
# among 100,000 timers each one would be a cache miss. Each node has four children: half the levels of a binary heap,
# and the children are contiguous. The pointers are borrowed; the caller keeps the timers alive while they are in here.
# All functions are inline, because each module that uses the timer heap includes them.
#
# In addition to the heap there may be one *run*: many timers that were new at the same time, sorted once
# (docs/adr/0005). Taking its first timer costs nothing, and the next timers are known early enough to prefetch them
# into the cache.

cdef extern from *:
    """
    typedef struct {
        double when;
        long long sequence;
        PyObject *timer;
    } loopcore_deadline;

    typedef struct {
        double when;
        PyObject *timer;
    } loopcore_sorted;

    typedef struct {
        loopcore_deadline *items;
        Py_ssize_t count;
        Py_ssize_t room;
        loopcore_sorted *run;
        Py_ssize_t run_first;
        Py_ssize_t run_end;
        long long run_sequence;  /* of the item at index 0; above those that the heap held before the run */
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
            PyMem_RawFree(heap->run);
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

    /* Make room for one more item. */
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

    /* Free the memory of an earlier peak, by halves. */
    static inline void
    loopcore_shrink_deadlines(loopcore_deadlines *heap)
    {
        Py_ssize_t room = heap->room;
        while (room > LOOPCORE_FEW_DEADLINES && heap->count < room / 4) {
            room /= 2;
        }
        if (room != heap->room) {
            (void)loopcore_resize_deadlines(heap, room);  /* if this fails, it keeps its size */
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
        loopcore_deadline rising = {when, sequence, timer};
        Py_ssize_t at = heap->count++;
        while (at > 0) {
            Py_ssize_t above = (at - 1) >> 2;
            if (!loopcore_fires_before(&rising, &items[above])) {
                break;
            }
            items[at] = items[above];
            at = above;
        }
        items[at] = rising;
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

    /* Remove and return the first; there must be one. */
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

    static inline Py_ssize_t
    loopcore_count_run(const loopcore_deadlines *heap)
    {
        return heap->run_end - heap->run_first;
    }

    /* Whether the first of all timers is the first of the run. */
    static inline int
    loopcore_run_is_first(const loopcore_deadlines *heap)
    {
        const loopcore_sorted *first = &heap->run[heap->run_first];
        if (heap->run_first == heap->run_end) {
            return 0;
        }
        return heap->count == 0 || first->when < heap->items[0].when
            || (first->when == heap->items[0].when && heap->run_sequence < heap->items[0].sequence);
    }

    static inline double
    loopcore_first_deadline(const loopcore_deadlines *heap)
    {
        if (loopcore_run_is_first(heap)) {
            return heap->run[heap->run_first].when;
        }
        return heap->count ? heap->items[0].when : Py_HUGE_VAL;
    }

    static inline Py_ssize_t
    loopcore_count_deadlines(const loopcore_deadlines *heap)
    {
        return heap->count;
    }

    /* Make an empty run with room for `count` items, and as much again for sorting them. */
    static inline int
    loopcore_make_run(loopcore_deadlines *heap, Py_ssize_t count)
    {
        PyMem_RawFree(heap->run);
        heap->run_first = heap->run_end = 0;
        heap->run = PyMem_RawMalloc(2 * (size_t)count * sizeof(loopcore_sorted));
        if (heap->run == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        return 0;
    }

    static inline void
    loopcore_free_run(loopcore_deadlines *heap)
    {
        PyMem_RawFree(heap->run);
        heap->run = NULL;
        heap->run_first = heap->run_end = 0;
    }

    static inline void
    loopcore_add_to_run(loopcore_deadlines *heap, double when, PyObject *timer)
    {
        heap->run[heap->run_end].when = when;
        heap->run[heap->run_end++].timer = timer;
    }

    /* A number that sorts like the deadlines: the bits of a double, inverted for negative ones. */
    static inline unsigned long long
    loopcore_key_of(const loopcore_sorted *item)
    {
        unsigned long long bits;
        double when = item->when + 0.0;  /* -0.0 becomes 0.0 */
        memcpy(&bits, &when, sizeof(bits));
        return bits >> 63 ? ~bits : bits | 1ULL << 63;
    }

    /* Sort a run that was just filled, byte by byte from the lowest, so that equal deadlines keep their order; and put
     * the list that owns its timers into the same order. This never calls the interpreter. */
    static inline void
    loopcore_sort_run(loopcore_deadlines *heap, PyObject *owners, long long sequence)
    {
        size_t counts[8][256];
        size_t count = (size_t)heap->run_end;
        loopcore_sorted *from = heap->run, *to = heap->run + count;
        heap->run_sequence = sequence;
        if (count == 0) {
            return;  /* a finalizer has cancelled all of them */
        }
        memset(counts, 0, sizeof(counts));
        for (size_t at = 0; at < count; at++) {
            unsigned long long key = loopcore_key_of(&from[at]);
            for (int byte = 0; byte < 8; byte++) {
                counts[byte][key >> 8 * byte & 255]++;
            }
        }
        for (int byte = 0; byte < 8; byte++) {
            size_t place = 0;
            loopcore_sorted *other = from;
            if (counts[byte][loopcore_key_of(from) >> 8 * byte & 255] == count) {
                continue;  /* equal in all, as are the highest bytes of deadlines within an hour */
            }
            for (int value = 0; value < 256; value++) {
                size_t many = counts[byte][value];
                counts[byte][value] = place;
                place += many;
            }
            for (size_t at = 0; at < count; at++) {
                to[counts[byte][loopcore_key_of(&from[at]) >> 8 * byte & 255]++] = from[at];
            }
            from = to;
            to = other;
        }
        if (from != heap->run) {
            memcpy(heap->run, from, count * sizeof(loopcore_sorted));
        }
        from = PyMem_RawRealloc(heap->run, count * sizeof(loopcore_sorted));
        heap->run = from == NULL ? heap->run : from;
        for (Py_ssize_t at = 0; at < PyList_GET_SIZE(owners); at++) {
            PyList_SET_ITEM(owners, at, at < heap->run_end ? heap->run[at].timer : Py_None);
        }
    }

    static inline void
    loopcore_fetch(const void *address)
    {
    #if defined(__GNUC__) || defined(__clang__)
        __builtin_prefetch(address, 1);
    #else
        (void)address;
    #endif
    }

    /* Remove the first of the run; return its index in the list of owners. */
    static inline Py_ssize_t
    loopcore_advance_run(loopcore_deadlines *heap)
    {
        Py_ssize_t ahead = heap->run_first + 8;
        if (ahead < heap->run_end) {
            /* The collector's header in front of the object, and the two cache lines after it. */
            loopcore_fetch((const char *)heap->run[ahead].timer - 16);
            loopcore_fetch((const char *)heap->run[ahead].timer + 48);
        }
        return heap->run_first++;
    }

    /* Free the memory of timers that are gone; their entries in the list of owners are None. */
    static inline void
    loopcore_trim_run(loopcore_deadlines *heap, PyObject *owners)
    {
        Py_ssize_t left = loopcore_count_run(heap);
        loopcore_sorted *moved;
        if (PyList_SetSlice(owners, heap->run_end, PyList_GET_SIZE(owners), NULL) < 0
                || PyList_SetSlice(owners, 0, heap->run_first, NULL) < 0) {
            PyErr_Clear();  /* it keeps its size; if only the end was removed, that was unused */
            return;
        }
        memmove(heap->run, heap->run + heap->run_first, (size_t)left * sizeof(loopcore_sorted));
        heap->run_sequence += heap->run_first;
        heap->run_first = 0;
        heap->run_end = left;
        moved = PyMem_RawRealloc(heap->run, (size_t)left * sizeof(loopcore_sorted));
        heap->run = moved == NULL ? heap->run : moved;
    }

    static inline Py_ssize_t
    loopcore_first_of_run(const loopcore_deadlines *heap)
    {
        return heap->run_first;
    }

    static inline double
    loopcore_run_deadline(const loopcore_deadlines *heap, Py_ssize_t position)
    {
        return heap->run[position].when;
    }

    static inline long long
    loopcore_run_sequence(const loopcore_deadlines *heap, Py_ssize_t position)
    {
        return heap->run_sequence + position;
    }

    static inline void
    loopcore_keep_of_run(loopcore_deadlines *heap, Py_ssize_t to, Py_ssize_t position)
    {
        heap->run[to] = heap->run[position];
    }

    /* Truncate the run at `end`, which is not beyond its present end. */
    static inline void
    loopcore_cut_run(loopcore_deadlines *heap, Py_ssize_t end)
    {
        heap->run_end = end;
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

    /* Keep the first `count` items, in whatever order, and make them a heap. */
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
    bint run_is_first "loopcore_run_is_first" (Deadlines heap) noexcept
    Py_ssize_t count_run "loopcore_count_run" (Deadlines heap) noexcept
    int make_run "loopcore_make_run" (Deadlines heap, Py_ssize_t count) except -1
    void free_run "loopcore_free_run" (Deadlines heap) noexcept
    void add_to_run "loopcore_add_to_run" (Deadlines heap, double when, object timer) noexcept
    void sort_run "loopcore_sort_run" (Deadlines heap, list owners, long long sequence) noexcept
    Py_ssize_t advance_run "loopcore_advance_run" (Deadlines heap) noexcept
    void trim_run "loopcore_trim_run" (Deadlines heap, list owners) noexcept
    Py_ssize_t first_of_run "loopcore_first_of_run" (Deadlines heap) noexcept
    double run_deadline "loopcore_run_deadline" (Deadlines heap, Py_ssize_t position) noexcept
    long long run_sequence "loopcore_run_sequence" (Deadlines heap, Py_ssize_t position) noexcept
    void keep_of_run "loopcore_keep_of_run" (Deadlines heap, Py_ssize_t to, Py_ssize_t position) noexcept
    void cut_run "loopcore_cut_run" (Deadlines heap, Py_ssize_t end) noexcept
    Py_ssize_t count_deadlines "loopcore_count_deadlines" (Deadlines heap) noexcept
    object timer_at "loopcore_timer_at" (Deadlines heap, Py_ssize_t position)
    void keep_deadline "loopcore_keep_deadline" (Deadlines heap, Py_ssize_t to, Py_ssize_t position) noexcept
    void cut_deadlines "loopcore_cut_deadlines" (Deadlines heap, Py_ssize_t count) noexcept
