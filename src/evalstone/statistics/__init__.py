"""Many scores become an estimate with an interval.

Plain numbers and numpy arrays go in, frozen records come out; nothing here knows of tasks, models or a store. What
is random is seeded by name, so the same scores give the same bytes. All of it needs numpy alone.
"""
