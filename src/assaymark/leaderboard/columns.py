"""Facts about a model other than its scores: the columns that every board shares, and their values.

Each column is named here once, for the table, the search language, the column picker and the exports.

A price has two parts, of input tokens and of output tokens, as the evaluation was billed or as the board's file states.
To plot scores against one number, three input tokens are taken for one output token, whatever the benchmark; with the
shares of each run, a model's price would differ from board to board. The parts, their date and source are shown beside
it.
Source: the ratio is that of Artificial Analysis' blended prices (artificialanalysis.ai/methodology).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from assaymark.errors import UnknownName
from assaymark.models.cost.prices import HIGHEST, Price
from assaymark.registry import nearest

Kind = Literal["text", "choice", "number", "flag", "date"]
_READ_SHARE = 0.75
LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class ModelType:
    """How a model was made."""

    key: str
    title: str
    symbol: str  # as the Open LLM Leaderboard wrote it
    aliases: tuple[str, ...] = ()


MODEL_TYPES: tuple[ModelType, ...] = (
    ModelType("pretrained", "pretrained", "🟢", ("base", "foundation", "pt")),
    ModelType("continued", "continuously pretrained", "🟩", ("continuous", "continuously-pretrained", "cpt")),
    ModelType("finetuned", "fine-tuned on domain data", "🔶", ("fine-tuned", "fine-tune", "finetune", "ft", "sft")),
    ModelType("chat", "chat (RLHF, DPO, IFT)", "💬", ("instruct", "rlhf", "dpo", "chatmodels")),
    ModelType("merge", "merge", "🤝", ("merged", "moerge", "merges")),
    ModelType("multimodal", "multimodal", "🌸", ("mm",)),
    ModelType("unknown", "type not stated", "❓", ("other", "?")),
)
"""The six types of the Open LLM Leaderboard, and the one for models that do not say."""
PRECISIONS: Mapping[str, str] = {
    "bf16": "bfloat16", "fp16": "float16", "half": "float16", "fp32": "float32", "f32": "float32", "float": "float32",
    "int8": "8bit", "int4": "4bit", "gptq": "GPTQ", "awq": "AWQ",
}  # fmt: skip
WEIGHT_TYPES = ("original", "adapter", "delta")
ORIGINS: Mapping[str, str] = {
    "measured": "measured here", "imported": "imported with answers", "reported": "reported, no answers",
    "published": "from a published table", "baseline": "baseline",
}  # fmt: skip
"""Where a row's numbers come from, with their titles."""
FROM_FILES = frozenset({"imported", "reported"})


@dataclass(frozen=True, slots=True)
class FactColumn:
    """One column that is not a score."""

    key: str
    title: str
    kind: Kind
    help: str
    is_shown: bool = False  # unless the reader or the board chooses otherwise
    aliases: tuple[str, ...] = ()  # in the search language
    choices: tuple[str, ...] = ()  # of `choice`: the values there are; empty for any


FACTS: tuple[FactColumn, ...] = (
    FactColumn(
        "type", "Type", "choice", "how the model was made", choices=tuple(kind.key for kind in MODEL_TYPES)
    ),
    FactColumn(
        "params", "Params (B)", "number", "parameters, in billions", is_shown=True, aliases=("size", "parameters")
    ),
    FactColumn("precision", "Precision", "choice", "type of number the weights were loaded in", aliases=("dtype",)),
    FactColumn(
        "weight", "Weights", "choice", "original, adapter or delta", aliases=("weights", "weight_type"),
        choices=WEIGHT_TYPES,
    ),
    FactColumn("licence", "Licence", "text", "licence stated on the model's page", aliases=("license",)),
    FactColumn("architecture", "Architecture", "text", "class of the model", aliases=("arch",)),
    FactColumn("sha", "Revision", "text", "commit or content hash of the weights", aliases=("revision", "hash")),
    FactColumn("chat_template", "Chat template", "flag", "prompts were rendered with the model's chat template",
               aliases=("template",)),
    FactColumn("preset", "Prompt preset", "text", "named layout of the prompts", aliases=("prompt_preset",)),
    FactColumn("system", "System prompt", "text", "system prompt the model was given", aliases=("system_prompt",)),
    FactColumn("prompts", "Setup", "text", "how prompts were built; profile and limit where not the board's",
               aliases=("prompt_set",)),
    FactColumn("merged", "Merged", "flag", "a merge of other models' weights, by its type or its card's tags",
               aliases=("merge",)),
    FactColumn("moe", "MoE", "flag", "mixture of experts"),
    FactColumn("flagged", "Flagged", "flag", "a moderator upheld a report: see the model's page"),
    FactColumn("available", "On the Hub", "flag", "the weights can still be downloaded", aliases=("on_hub",)),
    FactColumn("official", "Official", "flag", "submitted by the model's provider"),
    FactColumn("base", "Base model", "text", "model this one was made from", aliases=("base_model",)),
    FactColumn("generation", "Generation", "number", "steps of fine-tuning or merging from the base model"),
    FactColumn("likes", "Likes", "number", "likes on the Hub", aliases=("hearts",)),
    FactColumn("speed", "Tokens/s", "number", "tokens of prompts and answers per second, loading included",
               aliases=("tokens_per_second",)),
    FactColumn("memory", "Memory (GB)", "number", "most memory of the evaluating process, without that of a GPU",
               aliases=("peak_memory",)),
    FactColumn("price", "Price ($/M)", "number",
               "US dollars per million tokens, three parts read and one generated, at the time of the evaluation"),
    FactColumn("price_source", "Price stated", "text", "prices of tokens read and generated, their date and source"),
    FactColumn("prompt_spread", "Prompt spread", "number",
               "largest minus smallest score over wordings of the prompts, in points; mean of the audited tasks",
               aliases=("spread",)),
    FactColumn("co2", "CO₂ (kg)", "number", "estimated emissions of the evaluation"),
    FactColumn("date", "Evaluated", "date", "when it was evaluated or submitted", aliases=("submitted", "evaluated")),
    FactColumn("uploaded", "Uploaded", "date", "when the weights were published"),
    FactColumn("limit", "Samples", "text", "which samples were evaluated; empty for all"),
    FactColumn("profile", "Profile", "text", "whose rules the run follows"),
    FactColumn("origin", "Source", "choice",
               "measured here, imported with answers, reported without, or from a published table",
               choices=tuple(ORIGINS)),
)  # fmt: skip
FACTS_BY_KEY: Mapping[str, FactColumn] = {column.key: column for column in FACTS}
_TYPE_NAMES: Mapping[str, str] = {
    name: kind.key for kind in MODEL_TYPES for name in (kind.key, kind.title, kind.symbol, *kind.aliases)
}


def model_type(key: str) -> ModelType:
    """Return a type by its key; the unknown one for any other."""
    return next((kind for kind in MODEL_TYPES if kind.key == key), MODEL_TYPES[-1])


def precision_name(text: str) -> str:
    """Return a precision as it is written here: `bf16` and `torch.bfloat16` are bfloat16."""
    bare = text.strip().removeprefix("torch.")
    return PRECISIONS.get(bare.lower(), bare)


def canonical(column: FactColumn, text: str) -> str:
    """Return a value of a choice as rows hold it.

    Raises: UnknownName for a value that the column never has.
    """
    if column.key == "precision":
        return precision_name(text)
    if column.key == "type":
        type_key = _TYPE_NAMES.get(text.strip().lower())
        if type_key is None:
            raise UnknownName("type", text, nearest(text, _TYPE_NAMES), f"types: {', '.join(column.choices)}")
        return type_key
    lowered = text.strip().lower()
    if column.choices and lowered not in column.choices:
        raise UnknownName(column.key, text, nearest(text, column.choices), f"known: {', '.join(column.choices)}")
    return lowered


def _blended(price: Price) -> float:
    """Return the price of a million tokens, three quarters of them read."""
    return _READ_SHARE * price.read + (1 - _READ_SHARE) * price.generated


def billed_price(cost: object) -> Price | None:
    """Return the price of a stored bill, None if there is none.

    A run may come from another machine, so its bill is checked like any file.
    """
    stated = cost.get("price") if isinstance(cost, Mapping) else None
    if not isinstance(stated, Mapping):
        return None
    parts = [stated.get("read"), stated.get("generated")]
    numbers = [float(part) for part in parts if isinstance(part, int | float) and not isinstance(part, bool)]
    if len(numbers) != len(parts) or not all(0 <= number <= HIGHEST for number in numbers):
        return None
    date, source = (
        text[:LONGEST_TEXT] if isinstance(text := stated.get(name), str) and text else None
        for name in ("date", "source")
    )
    return Price(numbers[0], numbers[1], date, source)


def price_facts(price: Price | None, *, is_billed: bool) -> dict[str, float | str]:
    """Return the facts of a row with this price; none for an unknown one."""
    if price is None:
        return {}
    how = "billed" if is_billed else "stated"
    parts = f"{price.read:g} read, {price.generated:g} generated, {how}"
    stated = ", ".join([parts, *filter(None, (price.date, price.source))])
    return {"price": float(f"{_blended(price):.6g}"), "price_source": stated}
