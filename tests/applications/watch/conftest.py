"""A receiver for tests of watching."""

from tests.applications.traces.conftest import receiver

__all__ = ["receiver"]
