"""The folder on the path of a process that is to find Python as on Windows."""
