"""Applications: the user's own code as the target of an evaluation, with scorers, experiments and a gate."""
