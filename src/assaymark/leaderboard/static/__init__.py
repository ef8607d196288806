"""The pages of a leaderboard as a static site."""
