"""Programs that write files of the repository: run by hand, their output is committed."""
