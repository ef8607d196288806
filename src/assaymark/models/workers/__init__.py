"""Several processes that evaluate one run: on one machine, or on the machines of a Ray cluster."""
