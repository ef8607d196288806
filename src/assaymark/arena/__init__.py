"""Votes between two models' answers: read from files, checked, and turned into ratings."""
