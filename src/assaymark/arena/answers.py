"""Sources of the two answers of a battle: stored answers of every model to the same prompts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assaymark.errors import DataError

_MAKERS = (
    *("openai", "chatgpt", "anthropic", "mistral ai", "meta ai", "deepmind", "google ai", "alibaba cloud"),
    *("tongyi qianwen", "lmsys", "vicuna", "deepseek", "cohere", "eleutherai", "hugging face"),
)
_NO_NAME = {"chat", "instruct", "model", "base", "small", "large", "medium", "mini", "turbo", "preview", "latest"}
_SHORTEST_NAME = 4  # letters: shorter parts of a model's name are ordinary words


@dataclass(frozen=True, slots=True)
class ArenaPrompt:
    """A prompt of a source."""

    id: str
    text: str
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """A prompt with the answers of two models, in the order in which the models were named."""

    prompt: ArenaPrompt
    first: str
    second: str


class StoredAnswers:
    """Answers in memory; see `stored_answers`."""

    def __init__(self, name: str, prompts: Mapping[str, ArenaPrompt], answers: Mapping[str, Mapping[str, str]]) -> None:
        self._name = name
        self._prompts = dict(prompts)
        self._answers = {model: dict(of_model) for model, of_model in answers.items()}
        self._shared: dict[tuple[str, str], tuple[str, ...]] = {}

    @property
    def name(self) -> str:
        """The name of the source in the log."""
        return self._name

    @property
    def models(self) -> tuple[str, ...]:
        """The models that have answers."""
        return tuple(self._answers)

    @property
    def prompts(self) -> tuple[ArenaPrompt, ...]:
        """All prompts."""
        return tuple(self._prompts.values())

    def answer(self, model: str, prompt_id: str) -> str | None:
        """Return a model's answer to a prompt; None if it has none."""
        return self._answers[model].get(prompt_id)

    def shared(self, first: str, second: str) -> tuple[str, ...]:
        """Return the ids of the prompts to which both models have answers that differ."""
        if (first, second) not in self._shared:
            answers, other = self._answers[first], self._answers[second]
            self._shared[first, second] = tuple(key for key in answers if key in other and answers[key] != other[key])
        return self._shared[first, second]

    def draw(self, first: str, second: str, generator: np.random.Generator) -> Drawn | None:
        """Return a prompt with the answers of two models, each prompt with the same probability."""
        shared = self.shared(first, second)
        if not shared:
            return None
        key = shared[int(generator.integers(len(shared)))]
        return Drawn(self._prompts[key], self._answers[first][key], self._answers[second][key])


def stored_answers(
    name: str, prompts: Mapping[str, ArenaPrompt], answers: Mapping[str, Mapping[str, str]]
) -> tuple[StoredAnswers, int]:
    """Return a source without empty answers and without those that name their model, and the number of the latter.

    Args:
        name: how the log calls it.
        prompts: by id.
        answers: model -> prompt id -> answer.

    Raises: DataError if fewer than two models have answers to a common prompt.
    """
    kept: dict[str, dict[str, str]] = {}
    n_named = 0
    for model, of_model in answers.items():
        nonempty = {key: text for key, text in of_model.items() if text.strip()}
        kept[model] = {key: text for key, text in nonempty.items() if not names_its_model(text, tuple(answers))}
        n_named += len(nonempty) - len(kept[model])
    source = StoredAnswers(name, prompts, kept)
    pairs = [(a, b) for a in kept for b in kept if a < b]
    if not any(source.shared(a, b) for a, b in pairs):
        raise DataError(
            f"{name}: no two of {len(kept)} models ({', '.join(list(kept)[:5])}) have different answers to the same "
            "prompt; expected answers of at least two models to the same prompts"
        )
    return source, n_named


def names_its_model(text: str, models: Sequence[str]) -> bool:
    """Return whether an answer contains a name of one of the models, or of a maker of models, as a word."""
    words = {word for model in models for word in _name_words(model)}
    lower = text.lower()
    return any(re.search(rf"\b{re.escape(word)}", lower) for word in (*words, *_MAKERS) if word in lower)


def contains_a_name(text: str, models: Sequence[str]) -> bool:
    """Return whether a text contains a model's whole name as a word, such as `gpt-4o`, whose parts are too short."""
    whole = {model.rsplit("/", 1)[-1].lower() for model in models} - _NO_NAME
    lower = text.lower()
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", lower) for name in whole if name in lower)


def _name_words(model: str) -> list[str]:
    """Return the parts of a model's name that would give it away: `vicuna` of `lmsys/vicuna-7b-v1.5`."""
    parts = re.findall(r"[a-z]+", model.rsplit("/", 1)[-1].lower())
    return [part for part in parts if len(part) >= _SHORTEST_NAME and part not in _NO_NAME]
