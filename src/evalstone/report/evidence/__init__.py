"""From stored scores to estimates: tasks, groups, composites, baselines, calibration."""
