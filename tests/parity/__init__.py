"""Ours beside lm-evaluation-harness itself, on real rows and real models."""
