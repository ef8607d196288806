"""Submissions: what a submitter may choose, where the model is, and the checks before anything is evaluated."""
