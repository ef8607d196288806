"""What the pages of the arena and of studies show."""
