"""Local models of images and text."""
