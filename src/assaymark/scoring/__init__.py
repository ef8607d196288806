"""Score single answers.

Every function here is pure: from a model's outputs (log-likelihoods, texts) and the reference it computes values.
Scores are aggregated in `assaymark.statistics`.
"""
