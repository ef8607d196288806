"""Estimates and samples for people: tables, lists and their JSON twins."""
