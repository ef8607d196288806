"""Multiple-choice questions for the comparison with HELM's prompts, and a tokenizer of bytes."""

import random
from typing import Any

METHODS = {
    "helm-joint": "multiple_choice_joint",
    "helm-separate": "multiple_choice_separate_original",
    "helm-separate-calibrated": "multiple_choice_separate_calibrated",
}
INSTRUCTIONS = "The following are multiple choice questions (with answers) about many things."
LENGTHS = (40, 150, 400, 700)  # positions, in bytes
WORDS = ["copper", "naïve", "the river", "7 × 8", "água", "日本", "(so)", "A. not", "who?", "it's", "Answer:", "N/A"]


def rows() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the pool of shots and the questions."""
    draw = random.Random(20261127)

    def row() -> dict[str, Any]:
        question = " ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 14))) + "?"
        options = draw.sample(WORDS, 4)
        if draw.random() < 0.2:
            options[3] = options[1]
        return {"question": question, "options": options, "gold": draw.randrange(4)}

    return [row() for _ in range(23)], [row() for _ in range(12)]


def byte_tokenizer() -> Any:
    """Return a tokenizer whose tokens are the bytes of a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({symbol: at for at, symbol in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=alphabet[0])
