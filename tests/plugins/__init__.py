"""Tests of what installed packages add, with the package in this folder."""
