"""Commands `export`, `import` and `lm-eval`."""
