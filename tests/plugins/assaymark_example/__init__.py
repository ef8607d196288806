"""One of everything that can be added to Assaymark; `docs/extending.md` explains it."""
