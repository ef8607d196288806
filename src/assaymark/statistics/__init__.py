"""Estimates with intervals, tests and ratings from scores.

Functions take plain numbers and numpy arrays and return frozen records; nothing here depends on tasks, models or a
store. Random draws are seeded by name, so equal scores give equal results. Only numpy is needed.
"""
