"""The Python interface: `evaluate`, `Run`, `load_model` and more. The command line is built on it."""
