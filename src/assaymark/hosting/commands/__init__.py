"""Commands `chat` and `host`."""
