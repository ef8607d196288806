"""The warm process: it spares commands the start-up of Python, torch and transformers."""
