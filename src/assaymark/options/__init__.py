"""The options of a run, each declared once: keyword of `evaluate`, command-line option, check, plan, display."""
