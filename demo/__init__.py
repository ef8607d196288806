"""Makes what `make demo` runs on: an invented valley, its text, two small models and a small benchmark."""
