"""A model behind an OpenAI-compatible API: one process owns one engine and answers many users at once."""
