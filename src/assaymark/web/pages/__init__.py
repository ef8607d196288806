"""What each family of pages shows, as plain objects: no HTML, no HTTP, and no number computed here."""
