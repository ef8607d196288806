"""Workers: they take jobs from the queue and carry them out as `evalstone run` does, in a process of its own."""
