"""Read a suite's file. Its keys are interpreted in `suites`, which stored runs use without the file."""

from pathlib import Path

from assaymark.tasks.suites import Suite, suite_from
from assaymark.tasks.yaml_files import read_task_file

__all__ = ["read_suite"]


def read_suite(path: Path) -> Suite:
    """Return the suite in a file.

    Raises: DataError naming the file, the key and what was expected.
    """
    return suite_from(read_task_file(path), path)
