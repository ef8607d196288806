"""Workers: they take jobs from the queue and carry them out as `assaymark run` does, in a process of its own."""

import sys

from assaymark.platforms import not_here

if sys.platform == "win32":
    raise not_here("evaluating submissions")
