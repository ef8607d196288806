"""The routes of leaderboards and the queue."""
