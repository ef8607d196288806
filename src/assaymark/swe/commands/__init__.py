"""The commands of software-engineering tasks."""
