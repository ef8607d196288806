"""Perturbations of texts by HELM's rules: a reader recognises the same question, in other words or with slips."""
