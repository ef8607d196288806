"""The package in processes where Python is to its files as it is on Windows."""
