"""Transformers' progress bar for loading weights, which would break ours."""

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_bars"]


@contextmanager
def without_bars() -> Iterator[None]:
    """Disable the bar, which is a setting of the whole process, and restore it afterwards."""
    from transformers.utils import logging

    is_shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if is_shown:
            logging.enable_progress_bar()
