"""Carries work from left to right: plan, execute, resume, verify. Knows every part before it and no face after it."""
