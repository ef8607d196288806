"""Audits: what a score does not say of itself.

Was the test seen in training? Does the wording decide? Is the model honest about what it knows? Every audit asks a
model for log-likelihoods, or reads a stored run; nothing is written by the model and nothing leaves this machine. Each
number stands beside what it would be if there were nothing to find.
"""
