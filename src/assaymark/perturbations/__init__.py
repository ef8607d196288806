"""Perturbations of texts by HELM's rules: what a reader takes for the same question, in other words or with slips."""
