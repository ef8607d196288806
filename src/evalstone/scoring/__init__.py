"""One answer becomes one score.

Every function here is pure: outputs of a model (log-likelihoods, texts) and the reference go in, values come out.
What many scores say together is `evalstone.statistics`' business.
"""
