"""A small real model that always says the same: each of its tokens has one successor.

Its layers add nothing (their output weights are 0), so that the last hidden state is the embedding of the last token, a
unit vector; the head has for each token a row at its predecessor. So a prompt that ends with the assistant's turn is
answered with a fixed text, by the engine's own code.
"""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

TEMPLATE = """{% if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>
{% endif %}{% for message in messages %}{{ message.role }}: {{ message.content }}
{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"""
OPENING, END, UNKNOWN = "<|assistant|>", "<|end|>", "<unk>"


def calling_model(folder: Path, pieces: Sequence[str], template: str = TEMPLATE) -> Path:
    """Write a model that answers every chat with these different pieces of text, and return its folder."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    names = [UNKNOWN, OPENING, END, *pieces]
    size = 32
    config = LlamaConfig(
        vocab_size=len(names), hidden_size=size, intermediate_size=size, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=2048, eos_token_id=2, bos_token_id=None, pad_token_id=None, tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "o_proj" in name or "down_proj" in name or "embed" in name or "lm_head" in name:
                weight.zero_()
        sequence = [1, *range(3, len(names)), 2]  # opening, pieces, end
        for token in range(len(names)):
            model.model.embed_tokens.weight[token, token] = 1.0
        for token, following in pairwise(sequence):
            model.lm_head.weight[following, token] = 10.0
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\s+"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([OPENING, END])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=UNKNOWN, eos_token=END)
    fast.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": template}))
    return folder
