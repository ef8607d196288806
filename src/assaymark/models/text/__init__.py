"""Text and tokens: chat templates, rendering, tokenizers, token boundaries, stop texts."""
