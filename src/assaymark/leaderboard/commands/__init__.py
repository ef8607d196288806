"""Commands about leaderboards: board, serve, submit, worker and the like."""
