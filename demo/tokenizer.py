"""The demo models' tokenizer: byte-level BPE trained on the valley's text, with a chat template.

Like Llama's, it puts a beginning-of-text token before every text, so that the demo exercises the rules for it.
"""

from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from demo.write_text import ASSISTANT, END, SYSTEM, USER

__all__ = ["BOS", "END", "EOS", "MAX_POSITIONS", "N_PIECES", "train_tokenizer"]

BOS, EOS = "<s>", "</s>"
N_PIECES = 1536
MAX_POSITIONS = 1024
_CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)


def train_tokenizer(texts: Iterable[str]) -> Any:
    """Return a `PreTrainedTokenizerFast` whose pieces come from `texts`."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=N_PIECES,
        special_tokens=[BOS, EOS, SYSTEM, USER, ASSISTANT, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    bpe.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, bpe.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=EOS,
        model_max_length=MAX_POSITIONS,
        chat_template=_CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
