"""A local model that vLLM runs in place of this package's engine."""
