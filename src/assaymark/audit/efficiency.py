"""The time that a model's answers take on this machine, for a prompt and for each further token, in HELM's form.

Requests of several lengths are answered one at a time, several times each. t = T[k] + b (n_out - 1) is fitted by least
squares to the shortest time of each pair of lengths, since other work on the machine only adds time. T[k] is the time
until the first token after a prompt of k tokens, b the time of each further token, both in seconds. HELM's tables are
of models of 2022 on its own cluster; a fit here is of one machine, which is stored with it together with its load.
Source: HELM 63754d05, benchmark/metrics/efficiency_metrics.py; Narayanan et al. 2023 (arXiv 2305.02440).
"""

import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from assaymark.errors import DataError, ModelError, PlanError, UsageError
from assaymark.models.model import Model
from assaymark.records import GenerateQuery, GenerationSettings, JsonValue, Output, Request
from assaymark.records.json_values import dataclass_of, json_fields
from assaymark.settings import environment
from assaymark.statistics.distributions import t_quantile

MOST_OTHERS, MOST_STEAL = 0.1, 0.02  # shares of the processors' time above which a machine is busy
MOST_LOAD = 0.5  # of the cores, where the shares are not known

WORDS = ("the", "of", "and", "to", "in", "is", "was", "that", "for", "on", "with", "as", "by", "at", "from", "his")


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """One request that was answered alone: tokens of the prompt and of the answer, and the time from end to end."""

    n_prompt: int
    n_answer: int
    seconds: float


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """The other load of a machine during a measurement. A figure that the system does not report is None.

    Attributes:
        n_cores: of the machine.
        load_before: its load average of one minute.
        load_after: the same at the end, which contains the measurement itself.
        others: the share of all cores' time that other processes used, a model's server on this machine among them.
        steal: the share that other virtual machines took.
    """

    n_cores: int
    load_before: float | None = None
    load_after: float | None = None
    others: float | None = None
    steal: float | None = None

    @property
    def is_busy(self) -> bool:
        """Whether times measured meanwhile are those of a machine with other work."""
        if self.others is None:
            return self.load_before is not None and self.load_before > MOST_LOAD * self.n_cores
        return self.others > MOST_OTHERS or (self.steal or 0.0) > MOST_STEAL

    def line(self) -> str:
        """Describe in words how busy the machine was."""
        parts = []
        if self.others is not None:
            parts.append(f"other processes used {self.others:.0%} of the time of {self.n_cores} cores")
        if self.steal is not None and self.steal >= 0.005:
            parts.append(f"other virtual machines took {self.steal:.0%}")
        if self.load_before is not None and self.load_after is not None:
            parts.append(f"load average {self.load_before:.1f} before and {self.load_after:.1f} after")
        return ", ".join(parts) or "not known on this system"


class LoadMeter:
    """Measures the other load of the machine from the meter's creation until `stop`."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._load, self._times, self._own = _load_average(), _cpu_times(stat), time.process_time()

    def stop(self) -> MachineLoad:
        """Return the load since the meter was created."""
        n_cores = os.cpu_count() or 1
        before, after = self._times, _cpu_times(self._stat)
        own = time.process_time() - self._own
        others = steal = None
        if (
            sys.platform != "win32"
            and before is not None
            and after is not None
            and (ticks := sum(after) - sum(before)) > 0
        ):
            busy, _, stolen = (end - start for start, end in zip(before, after, strict=True))
            others = min(1.0, max(0.0, busy / ticks - own * os.sysconf("SC_CLK_TCK") / ticks))
            steal = stolen / ticks
        return MachineLoad(n_cores, self._load, _load_average(), others, steal)


def _load_average() -> float | None:
    if sys.platform != "win32":
        with suppress(OSError):
            return os.getloadavg()[0]
    return None


def _cpu_times(stat: Path) -> tuple[int, int, int] | None:
    """Return the ticks of all cores so far, busy, idle and stolen; None where the system does not say (proc(5))."""
    try:
        first = stat.read_text(encoding="ascii").partition("\n")[0].split()
        user, nice, system, idle, wait, irq, soft, steal = (int(each) for each in first[1:9])
    except (OSError, ValueError):
        return None
    return user + nice + system + irq + soft, idle + wait, steal


@dataclass(frozen=True, slots=True)
class EfficiencyFit:
    """Times in HELM's form, with what they were fitted to.

    Attributes:
        prompt_seconds: tokens of a prompt -> seconds until the first token of the answer.
        token_seconds: seconds of each further token.
        low: the lower end of its 95% interval (Student's t).
        high: the upper end.
        residual_seconds: root of the mean square of the residuals, by degrees of freedom.
        worst_share: the largest residual, as a share of the time that was measured.
        answers: the measurements.
        model: the model's name and dtype.
        machine: on which the times were measured.
        load: the machine's other load meanwhile; None if not measured.
    """

    prompt_seconds: Mapping[int, float]
    token_seconds: float
    low: float
    high: float
    residual_seconds: float
    worst_share: float
    answers: tuple[TimedAnswer, ...]
    model: Mapping[str, JsonValue]
    machine: Mapping[str, JsonValue]
    load: MachineLoad | None = None

    def seconds(self, n_prompt: int, n_answer: int) -> float:
        """Return the estimated time of a request, as HELM computes it from its tables.

        The prompt has the speed of the smallest measured length that is not shorter, or of the longest one.
        """
        known = sorted(self.prompt_seconds)
        key = next((each for each in known if n_prompt <= each), known[-1])
        encoding = self.prompt_seconds[key] * (n_prompt / key)
        return encoding + self.token_seconds * (n_answer - 1) if n_answer > 0 else encoding

    @property
    def is_noisy(self) -> bool:
        """Whether the form does not fit: a negative time of a prompt, or residuals above half of a time."""
        return min(self.prompt_seconds.values()) <= 0 or self.worst_share > 0.5

    def to_json(self) -> "EfficiencyFacts":
        """Return the fit with stable names."""
        return {
            "model": dict(self.model),
            "machine": dict(self.machine),
            "load": None if self.load is None else json_fields(self.load, "is_busy"),
            "runtime_for_prompt_tokens": {str(n): value for n, value in sorted(self.prompt_seconds.items())},
            "runtime_per_output_token": self.token_seconds,
            "runtime_per_output_token_interval": [self.low, self.high],
            "residual_seconds": self.residual_seconds,
            "worst_residual_share": self.worst_share,
            "is_noisy": self.is_noisy,
            "answers": [(each.n_prompt, each.n_answer, each.seconds) for each in self.answers],
        }

    @classmethod
    def from_json(cls, content: "EfficiencyFacts") -> "EfficiencyFit":
        """Return the fit that `to_json` wrote."""
        (low, high), load = content["runtime_per_output_token_interval"], content["load"]
        return EfficiencyFit(
            prompt_seconds={int(n): value for n, value in content["runtime_for_prompt_tokens"].items()},
            token_seconds=content["runtime_per_output_token"],
            low=low,
            high=high,
            residual_seconds=content["residual_seconds"],
            worst_share=content["worst_residual_share"],
            answers=tuple(TimedAnswer(*each) for each in content["answers"]),
            model=content["model"],
            machine=content["machine"],
            load=None
            if load is None
            else dataclass_of(MachineLoad, {name: value for name, value in load.items() if name != "is_busy"}),
        )


class EfficiencyFacts(TypedDict):
    """An `EfficiencyFit` as it is stored."""

    model: Mapping[str, JsonValue]
    machine: Mapping[str, JsonValue]
    load: Mapping[str, JsonValue] | None
    runtime_for_prompt_tokens: Mapping[str, float]  # the number of tokens as a text -> seconds
    runtime_per_output_token: float
    runtime_per_output_token_interval: Sequence[float]  # low, high
    residual_seconds: float
    worst_residual_share: float
    is_noisy: bool
    answers: Sequence[tuple[int, int, float]]  # tokens of the prompt, tokens of the answer, seconds


def audit_efficiency(
    model: Model,
    lengths: Sequence[int],
    answers: Sequence[int],
    repeats: int,
    announce: Callable[[str], None] = lambda _line: None,
) -> EfficiencyFit:
    """Return the fit of a model's times on this machine.

    Args:
        model: one that generates text.
        lengths: approximate tokens of the prompts; lengths that do not fit the model are left out with a notice.
        answers: most tokens of the answers, at least two numbers.
        repeats: how often each combination is measured.
        announce: is told what is left out, and each round.

    Raises: UsageError for fewer than two numbers of tokens; PlanError where no length fits; DataError where the answers
        end too early to say what a token costs; ModelError for a request that fails.
    """
    if len({*answers}) < 2 or min(answers) < 1 or min(lengths, default=0) < 1 or repeats < 1:
        raise UsageError(
            f"answers of {', '.join(map(str, answers))} tokens after prompts of {', '.join(map(str, lengths))}; "
            "expected at least two different numbers of tokens of answers, a length, and all from 1"
        )
    longest = model.identity.max_length
    fitting = [n for n in lengths if longest is None or n + max(answers) <= longest]
    if not fitting:
        raise PlanError(
            f"the model has {longest} positions, and the shortest prompt and the longest answer have "
            f"{min(lengths) + max(answers)} tokens; name shorter ones"
        )
    if len(fitting) < len(lengths):
        left = ", ".join(str(n) for n in lengths if n not in fitting)
        announce(f"left out: prompts of {left} tokens, which with the answers are longer than {longest} positions")
    meter = LoadMeter()
    times = measure_times(model, fitting, answers, repeats, announce)
    return fit_times(times, model, meter.stop())


def measure_times(
    model: Model,
    lengths: Sequence[int],
    answers: Sequence[int],
    repeats: int,
    announce: Callable[[str], None] = lambda _line: None,
) -> tuple[TimedAnswer, ...]:
    """Return the times of requests that are answered one at a time, after a first one that does not count."""
    asked = 0

    def timed(n_words: int, n_answer: int) -> tuple[Output, float]:
        nonlocal asked
        words = [WORDS[at % len(WORDS)] for at in range(max(1, n_words))]
        shift = asked % len(words)  # prompts of one length have the same words and begin differently
        words = words[shift:] + words[:shift]
        settings = GenerationSettings(max_tokens=n_answer)
        request = Request("efficiency", asked, f"efficiency {asked}", (" ".join(words),), (GenerateQuery(0, settings),))
        asked += 1
        start = time.perf_counter()
        (output,) = model.answer([request])
        seconds = time.perf_counter() - start
        if output.error is not None:
            raise ModelError(output.error)
        return output, seconds

    first, _ = timed(min(lengths), max(answers))  # loads the weights
    per_word = max(1.0, (first.n_context_tokens or min(lengths)) / max(1, min(lengths)))
    times = []
    for number in range(1, repeats + 1):
        announce(f"round {number} of {repeats}: {len(lengths) * len(answers)} answers")
        for n_prompt in lengths:
            for n_answer in answers:
                output, seconds = timed(int(n_prompt / per_word), n_answer)
                times.append(TimedAnswer(output.n_context_tokens or n_prompt, output.n_tokens or 0, seconds))
    return tuple(times)


def fit_times(
    answers: Sequence[TimedAnswer], model: Model | None = None, load: MachineLoad | None = None
) -> EfficiencyFit:
    """Return the fit to the shortest times; prompts whose lengths differ by at most a tenth are of one length.

    load: the machine's other load.

    Raises: DataError for answers of one length only.
    """
    lengths: list[int] = []
    for n in sorted(each.n_prompt for each in answers):
        if not lengths or n > 1.1 * lengths[-1]:
            lengths.append(n)
    shortest: dict[tuple[int, int], float] = {}
    for each in answers:
        pair = (max(key for key in lengths if key <= each.n_prompt), each.n_answer)
        shortest[pair] = min(each.seconds, shortest.get(pair, math.inf))
    further = np.array([n_answer - 1 for _, n_answer in shortest], dtype=float)
    if min(further) < 0 or len(shortest) <= len(lengths) + 1:
        raise DataError(
            f"the {len(answers)} answers have {int(further.min()) + 1} to {int(further.max()) + 1} tokens, so the"
            " time of a token cannot be told from that of the prompt; ask for longer answers, or measure a model that"
            " does not end them at once"
        )
    design = np.column_stack(
        [*(np.array([key == each for key, _ in shortest], dtype=float) for each in lengths), further]
    )
    seconds = np.array([*shortest.values()])
    solution, _, _, _ = np.linalg.lstsq(design, seconds, rcond=None)
    residuals = seconds - design @ solution
    df = len(shortest) - design.shape[1]
    variance = float(residuals @ residuals) / df
    reach = t_quantile(0.975, df) * float(np.sqrt(variance * np.linalg.pinv(design.T @ design)[-1, -1]))
    return EfficiencyFit(
        dict(zip(lengths, map(float, solution[:-1]), strict=True)),
        float(solution[-1]),
        float(solution[-1]) - reach,
        float(solution[-1]) + reach,
        float(np.sqrt(variance)),
        float(np.max(np.abs(residuals) / seconds)),
        tuple(answers),
        {} if model is None else {"name": model.identity.name, "dtype": model.identity.dtype},
        {**_processor(), **environment(), **({} if model is None else model.describe())},
        load,
    )


def _processor() -> dict[str, JsonValue]:
    """Return the name of the processor and the number of its cores that this process sees."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {"processor_name": named or platform.processor() or None, "n_cores": os.cpu_count()}
