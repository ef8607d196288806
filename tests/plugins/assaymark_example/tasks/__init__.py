"""Task files: every YAML file in this folder is a task."""
