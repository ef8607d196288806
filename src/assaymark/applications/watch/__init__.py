"""Watching a live application: its quality over time, and alarms whose false ones are bounded."""
