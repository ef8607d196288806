"""Generation settings of a task: its `generation_kwargs`, overridden by the user's, in one normal form."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import SupportsFloat

from assaymark.errors import PlanError
from assaymark.prompts.presets import PromptPreset
from assaymark.records import GenerationSettings, JsonValue
from assaymark.tasks.task import Task

MAX_TOKENS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  # first wins
_RANGES: Mapping[str, tuple[Callable[[float], bool], str]] = {
    "max_gen_toks": (lambda value: value >= 1, "1 or more"),
    "temperature": (lambda value: value >= 0, "0 or more"),
    "top_p": (lambda value: 0 < value <= 1, "more than 0, at most 1"),
    "top_k": (lambda value: value >= -1, "0 or more; 0 and -1 allow every token"),
    "min_p": (lambda value: 0 <= value <= 1, "0 to 1"),
    "seed": (lambda value: value >= 0, "0 or more"),
}


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """The generation settings of each sample: the same for all, or by the value of a column."""

    of_all: GenerationSettings
    column: str | None = None
    of_value: Mapping[str, GenerationSettings] = field(default_factory=dict)

    def of(self, row: Mapping[str, object]) -> GenerationSettings:
        """Return the settings for one row."""
        return self.of_all if self.column is None else self.of_value.get(str(row.get(self.column)), self.of_all)

    @property
    def facts(self) -> dict[str, JsonValue]:
        """The settings as a plan stores them."""
        own = _facts(self.of_all)
        if self.column is None:
            return own
        return own | {"by": {self.column: {value: _facts(each) for value, each in self.of_value.items()}}}


def _facts(settings: GenerationSettings) -> dict[str, JsonValue]:
    """Return settings for a plan; one that earlier plans do not have is left out where it is the default."""
    facts: dict[str, JsonValue] = asdict(settings)
    return facts if settings.stop_after_text else {name: facts[name] for name in facts if name != "stop_after_text"}


def answer_settings(
    task: Task, gen_kwargs: Mapping[str, JsonValue], preset: PromptPreset | None = None, *, is_chat: bool = False
) -> AnswerSettings:
    """Return a task's generation settings; the texts that end a turn of the preset are added to the stop texts.

    Raises: PlanError for a value of a wrong type or out of its range.
    Source: lm-evaluation-harness 0.4.13 `normalize_gen_kwargs`.
    """
    own, by = effective_kwargs(task, {}), task.generation_by

    def settings(more: Mapping[str, object]) -> GenerationSettings:
        settings = settings_of(task.name, {**own, **more, **gen_kwargs}, task.repeats, is_chat=is_chat)
        if preset is None:
            return settings
        return replace(settings, stop=tuple(dict.fromkeys((*settings.stop, *preset.stop))))

    if by is None:
        return AnswerSettings(settings({}))
    of_value = {str(value): settings(more) for value, more in by["values"].items()}
    return AnswerSettings(settings({}), by["column"], of_value)


def check_gen_kwargs(gen_kwargs: Mapping[str, object]) -> None:
    """Raise PlanError for a value that no task could use, whether or not the run's tasks generate anything."""
    settings_of("gen_kwargs", gen_kwargs)


def effective_kwargs(task: Task, gen_kwargs: Mapping[str, JsonValue]) -> dict[str, object]:
    """Return the task's settings, overridden by the user's, with lm-evaluation-harness's names.

    Source: lm-evaluation-harness 0.4.13 `TaskConfig.__post_init__`; without `until` the shot delimiter stops.
    """
    if task.generation_kwargs is None:
        own: dict[str, object] = {"temperature": 0.0, "do_sample": False, "max_gen_toks": 256}
    else:
        own = dict(task.generation_kwargs)
    if "until" not in own and "plain_until" not in own:
        own["until"] = [task.prompt.fewshot_delimiter]
    return {**own, **gen_kwargs}


def settings_of(
    name: str, generation_kwargs: Mapping[str, object], repeats: int = 1, *, is_chat: bool = False
) -> GenerationSettings:
    """Convert lm-evaluation-harness's `generation_kwargs` to our settings. Raises: PlanError naming the task.

    Our own `plain_until` has the stop texts, unless `until` is given, of answers that continue a plain text: in a chat
    the turn ends by itself. The white space that an answer begins with contains none of them.
    """
    kwargs = dict(generation_kwargs)
    plain = kwargs.pop("plain_until", None)
    is_plain = bool(plain) and "until" not in kwargs and not is_chat
    until = plain if is_plain else kwargs.pop("until", [])
    stops = until if isinstance(until, (list, tuple)) else [until]
    try:
        limits = [kwargs.pop(name) for name in MAX_TOKENS if name in kwargs]
        limit = _whole("max_gen_toks", next((value for value in limits if value is not None), None))
        temperature = _number("temperature", kwargs.pop("temperature", None)) or 0.0
        do_sample = _samples(kwargs.pop("do_sample", None), otherwise=temperature > 0.0)
        top_k = _whole("top_k", kwargs.pop("top_k", None))
        return GenerationSettings(
            max_tokens=limit,
            stop=tuple(str(stop) for stop in stops if stop is not None),
            do_sample=do_sample,
            temperature=temperature if do_sample else 0.0,
            top_p=_number("top_p", kwargs.pop("top_p", None)),
            top_k=None if top_k is None else max(top_k, 0),
            min_p=_number("min_p", kwargs.pop("min_p", None)),
            seed=_whole("seed", kwargs.pop("seed", None)) or 0,
            repeats=repeats,
            extra=tuple(sorted(kwargs.items())),
            stop_after_text=is_plain,
        )
    except ValueError as error:
        raise PlanError(f"generation settings of {name}: {error}; seen {dict(generation_kwargs)!r:.200}") from error


def _number(name: str, value: object) -> float | None:
    """Return a number in its range. Raises: ValueError naming the setting, its value and the expected range."""
    if value is None:
        return None
    fits, words = _RANGES[name]
    try:
        number = float(value) if isinstance(value, str | SupportsFloat) else math.nan
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and fits(number)):
        raise ValueError(f"{name} is {value}; expected {words}")
    return number


def _whole(name: str, value: object) -> int | None:
    number = _number(name, value)
    if number is not None and number != int(number):
        raise ValueError(f"{name} is {value}; expected a whole number")
    return None if number is None else int(number)


def _samples(value: object, *, otherwise: bool) -> bool:
    if value is None:
        return otherwise
    if value not in (True, False):  # 1 and 0 are equal to them
        raise ValueError(f"do_sample is {value}; expected true or false")
    return bool(value)
