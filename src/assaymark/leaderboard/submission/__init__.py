"""Submissions: the submitter's choices, the sources of models, and the checks before evaluation."""
