"""Workers: they take jobs from the queue and carry them out as `assaymark run` does, in a process of its own."""
