"""Compute estimates from stored scores: of tasks, groups and composites, with baselines and calibration."""
