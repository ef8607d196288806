"""Token ids in, log-probabilities out: every distinct token path is computed once.

The engine handles no benchmark and no text. `spans` (the input), `trie` (what is shared) and `options` (how to run)
need only numpy; `engine` imports torch and transformers, and is itself imported when a model is loaded.
"""
