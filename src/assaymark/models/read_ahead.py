"""Making the next thing while the present one is used."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


def read_ahead(make: Callable[[Item], Made], items: Sequence[Item], thread_name: str) -> Iterator[Made]:
    """Yield what `make` returns for each item, in order; the next is made in a thread while the caller uses one.

    At most one is made ahead. Where there is no next item there is no thread. A caller that stops early waits for
    what is being made, and nothing after it is begun.

    Raises: what `make` raises, when its result is due.
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
