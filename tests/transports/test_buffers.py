"""Queues of very many items: small ones are joined, or shortening the list would be most of the time (issue 32)."""

from loopcore.transports.buffers import JOINED_LIMIT, VECTOR_LIMIT, join_last, join_small


def test_a_million_small_items_become_few() -> None:
    items = [b"%d," % number for number in range(1_000_000)]
    joined = join_small(items)
    assert len(joined) <= len(items) // VECTOR_LIMIT + 1
    assert b"".join(joined) == b"".join(items)


def test_large_items_are_left_as_they_are() -> None:
    large = bytes(JOINED_LIMIT // VECTOR_LIMIT + 1)
    items = [large] * (2 * VECTOR_LIMIT) + [b"small"]
    assert join_small(items) == items
    assert all(item is large for item in join_small(items)[: 2 * VECTOR_LIMIT])


def test_a_queue_that_grows_by_small_items_stays_short() -> None:
    queue = [b"first"]
    for _ in range(100 * VECTOR_LIMIT):
        queue.append(b"x")
        if len(queue) % VECTOR_LIMIT == 0:
            join_last(queue)
    assert len(queue) < 2 * VECTOR_LIMIT
    assert b"".join(queue) == b"first" + b"x" * (100 * VECTOR_LIMIT)
