"""Limits on the time, output and memory of templates and regular expressions from files; mounts of sandboxes."""
