"""What each page of a leaderboard shows."""
