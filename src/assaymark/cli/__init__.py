"""The command line: one file per command, no logic; it parses, calls the API and prints."""
