"""The schema's history: one script per step in `versions`, run by Alembic through `env.py`."""
