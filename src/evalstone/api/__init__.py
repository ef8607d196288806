"""What Python users import: `evaluate`, `Run`, `load_model`. The command line is built on this and nothing else."""
