"""Applications: targets, scorers, experiments and the gate."""
