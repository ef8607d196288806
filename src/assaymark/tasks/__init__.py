"""Tasks: task files read into frozen tasks, their catalogue, and tasks bound to their rows."""
