"""Monitoring of a live application: rules that score its traces, feedback, queues of annotations."""
