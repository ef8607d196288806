"""Commands `audit` and `task`."""
