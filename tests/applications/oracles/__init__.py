"""Other tools in environments of their own, beside which ours is tested."""
