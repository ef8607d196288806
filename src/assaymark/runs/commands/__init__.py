"""Commands about runs: run, plan, show, compare and the like."""
