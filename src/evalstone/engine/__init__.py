"""Token ids in, log-probabilities out: every distinct token path is computed once.

The engine knows no benchmark and no text. `spans` (what is asked), `trie` (what is shared) and `options` (how it is
to be run) need only numpy; `engine` brings in torch and transformers, and is imported when a model is loaded.
"""
