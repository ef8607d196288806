"""Reasoning in generated texts: its tags, texts that end inside it, and prompts that open it.

A text that ends inside its reasoning has no answer: a letter in it is one that the model was considering. lm-eval
scores such a text as an answer.

Source: the chat templates of DeepSeek-R1, Qwen3, Magistral, Kimi, Seed-OSS and Command A (tags of reasoning).
"""

import re
from collections.abc import Mapping, Sequence

from assaymark.errors import UsageError
from assaymark.models.text.stops import FinalText
from assaymark.records import LoglikelihoodQuery, Request

TAGS: Mapping[str, str] = {
    **{f"<{name}>": f"</{name}>" for name in ("think", "thinking", "thought", "thoughts", "reasoning", "seed:think")},
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|channel|>analysis": "<|channel|>final",
    "<unused94>thought": "<unused95>",
    "<start_working_out>": "<end_working_out>",
}
"""Text that opens the reasoning -> text that closes it."""

_TAG = re.compile(  # in any case, with attributes, escaped, or as a special token
    r"(?:<|&lt;)(?P<bar>\|?)\s*(?P<name>think|thinking|thoughts?|reasoning|reason|reflection|seed:think|analysis|scratchpad|"
    r"rationale|planning|cot|chain[_-]of[_-]thought|thought[_-]process|(?:inner|internal)[_-](?:monologue|thoughts?))"
    r"(?:\s[^<>]*)?(?P=bar)(?:>|&gt;)",
    re.IGNORECASE,
)


_END_OF_TURN = re.compile(  # of chat templates; a server that does not know them as tokens leaves them in the text
    r"<\|(?:im_end|eot_id|eom_id|end|return|end_of_turn|end_of_text|endoftext)\|>|<end_of_turn>|<｜end▁of▁sentence｜>|(?:</s>|<eos>)\s*\Z"
)


def opened_reasoning(prompt: str) -> str | None:
    """Return the tag with which a prompt ends and so opens the reasoning; None for other prompts."""
    end = prompt[-200:].rstrip()
    return next((tag for tag in TAGS if end.endswith(tag)), None)


def ends_in_reasoning(
    final: FinalText, think_end: str | int | None, *, is_cut: bool, opened: str | None = None
) -> bool:
    """Return whether a generated text has ended before its reasoning has.

    It has if a tag opens reasoning at its beginning and none closes it; if the prompt opened it (`opened`, the tag) and
    the text does not close it; and if a model that reasons (`think_end`) reached the limit of tokens (`is_cut`) before.
    """
    answer = final.text.lstrip()
    if (own := _TAG.match(answer)) is not None:
        end = re.compile(rf"(?:<|&lt;)\|?/\s*{re.escape(own['name'])}\s*\|?(?:>|&gt;)", re.IGNORECASE)
        n_opened = sum(tag["name"].lower() == own["name"].lower() for tag in _TAG.finditer(answer)) if is_cut else 1
        return len(end.findall(answer)) < n_opened
    if (marks := next((tag for tag in TAGS if answer.startswith(tag)), None)) is not None:
        return TAGS[marks] not in answer
    if final.reasoning is not None:
        return False
    return (think_end is not None and is_cut) or (opened is not None and TAGS[opened] not in answer)


def unremoved_mark(text: str) -> tuple[str, str] | None:
    """Return a mark that is still part of an answer, after its kind; None without.

    "unremoved_reasoning": the tag that closes reasoning; "unremoved_end": the end of a turn.
    """
    if (closing := next((end for end in TAGS.values() if end in text), None)) is not None:
        return "unremoved_reasoning", closing
    return ("unremoved_end", mark[0].strip()) if (mark := _END_OF_TURN.search(text)) else None


def refuse_opened_reasoning(requests: Sequence[Request]) -> None:
    """Raise UsageError if the options of a chat would be scored as the first words of its reasoning."""
    for request in requests:
        if not request.messages or not any(isinstance(query, LoglikelihoodQuery) for query in request.queries):
            continue
        if (tag := opened_reasoning("".join(request.segments))) is not None:
            raise UsageError(
                f"{request.id}: the chat template opens the reasoning (the prompt ends with {tag}), so that options "
                "would be scored as its first words; close it with enable_thinking=False in --model_args, if the "
                "template knows that, else omit --apply_chat_template or have the answer generated (--prompt_style cot)"
            )
