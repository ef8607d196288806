"""What a model is, from its files and arguments; nothing is loaded."""
