"""The contents of each page of a leaderboard."""
