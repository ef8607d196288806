"""Weights as trainers write them: other names, other layouts, several files; loaded without converting them first."""
