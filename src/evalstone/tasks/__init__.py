"""What is asked: task files read into frozen tasks, the catalogue of them, and tasks bound to their rows."""
