"""Making the next result while the present one is used."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def read_ahead(make: Callable[[Item], Made], items: Sequence[Item], thread_name: str) -> Iterator[Made]:
    """Yield `make(item)` for each item, in order; a thread makes the next result while the caller uses one.

    At most one result is made ahead. Without a next item there is no thread. A caller that stops early waits for the
    result that is being made; no further one is begun.

    Raises: the errors of `make`, each when its result is due.
    """
    if len(items) < 2:
        yield from map(make, items)
        return
    pool = ThreadPoolExecutor(1, thread_name_prefix=thread_name)
    try:
        ahead = pool.submit(make, items[0])
        for following in items[1:]:
            ready = ahead.result()
            ahead = pool.submit(make, following)
            yield ready
        yield ahead.result()
    finally:
        pool.shutdown(cancel_futures=True)
