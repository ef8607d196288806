"""Leaderboards: a board's file, its table, the search language, published tables, and rows made of stored runs.

`board` reads a board's YAML, `site` holds the boards that a server shows, `table` has the one row type that pages,
JSON, CSV and Parquet are made of. Nothing here knows about HTTP or HTML.
"""
