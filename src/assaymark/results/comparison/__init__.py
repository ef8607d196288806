"""Two or more runs on the same samples: pairing, differences, tests, gates and the verdict."""
