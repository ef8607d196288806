"""A model behind an OpenAI-compatible server: requests, responses, failures, rate and limits."""
