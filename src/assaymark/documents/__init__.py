"""Results as blocks of values, and the writers that show them in a terminal, as HTML or as Markdown."""
