"""Tests of software-engineering tasks."""
