"""Leaderboards: a board's file, its table, the search language, published tables, and rows made of stored runs.

`board_files` reads a board's YAML, `site` holds the boards that a server shows, and `rows` has the row type from which
pages, JSON, CSV and Parquet are made.
"""
