"""Routes of the parts beside the leaderboards: one module for each part, which the command adds to the application."""
