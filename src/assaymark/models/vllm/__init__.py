"""A local model run by vLLM instead of this package's engine."""
