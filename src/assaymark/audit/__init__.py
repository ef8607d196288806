"""Audits of models and benchmarks: contamination, prompt sensitivity, calibration, and checks of tasks.

An audit queries a model for log-likelihoods, or reads a stored run. Results are reported with their values under the
null hypothesis.
"""
