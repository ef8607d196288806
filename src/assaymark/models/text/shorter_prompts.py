"""Prompts that are too long, made shorter as HELM does: shots first, the last one first, then the text's end.

A text's length is that of its own tokens, without BOS and EOS, as HELM counts them.
Source: HELM 63754d05, benchmark/adaptation/adapters/in_context_learning_adapter.py (`_make_prompt_fit`),
    benchmark/window_services/local_window_service.py (`truncate_from_right`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assaymark.errors import UsageError
from assaymark.models.text.tokens import Encoder


@dataclass(frozen=True, slots=True)
class ShorterPrompt:
    """One prompt and how it was made to fit.

    Attributes:
        segments: the remaining ones, whole.
        cut_text: the text whose end was cut off, if the prompt is too long even without shots; None: not cut.
        n_removed: the number of removed tokens; 0 for a prompt that fits unchanged.
    """

    segments: tuple[str, ...]
    cut_text: str | None = None
    n_removed: int = 0


def shorter_prompts(
    encoder: Encoder, prompts: Sequence[tuple[str, ...]], n_shots: Sequence[int], capacities: Sequence[int]
) -> list[ShorterPrompt]:
    """Return each prompt, shortened to fit.

    Args:
        prompts: the segments of each: what precedes the shots, the shots, and the question as the last segment.
        n_shots: of each prompt.
        capacities: the most tokens of each prompt; below 1, it is returned as it is.
    """
    lengths = [tokens.size for tokens in encoder.encode_all(["".join(each) for each in prompts], specials=False)]
    rows = zip(prompts, n_shots, capacities, lengths, strict=True)
    return [
        _shorter(encoder, segments, shots, capacity, length) if length > capacity > 0 else ShorterPrompt(segments)
        for segments, shots, capacity, length in rows
    ]


def _shorter(encoder: Encoder, segments: tuple[str, ...], n_shots: int, capacity: int, length: int) -> ShorterPrompt:
    for n_dropped in range(1, n_shots + 1):
        kept = (*segments[: -1 - n_dropped], segments[-1])
        (tokens,) = encoder.encode_all(["".join(kept)], specials=False)
        if tokens.size <= capacity:
            return ShorterPrompt(kept, None, length - tokens.size)
    kept = (*segments[: len(segments) - 1 - n_shots], segments[-1])
    (tokens,) = encoder.encode_all(["".join(kept)], specials=False)
    text = str(encoder.tokenizer.decode(tokens[:capacity].tolist(), clean_up_tokenization_spaces=False))
    while (tokens := encoder.encode_all([text], specials=False)[0]).size > capacity:
        text = text[:-1]  # half of a character was decoded as another one that has more tokens
    return ShorterPrompt(kept, text, length - tokens.size)


def refuse_chat(request_id: str, *, is_chat: bool) -> None:
    """Raise UsageError for a conversation: shots are removed from plain texts only."""
    if is_chat:
        raise UsageError(
            f"{request_id}: too_long=drop_shots removes shots from plain-text prompts, and this is a conversation; "
            "omit apply_chat_template, or use too_long=cut"
        )
