"""A GGUF file run by llama.cpp instead of this package's engine."""
