"""Reader of HELM's run folders: their records (`helm_files.py`) as a run of ours.

Perturbed copies become tasks of their own beside the originals, `mmlu:subject=anatomy~mild_mix`, as copies that are
evaluated here do, so that differences and worst cases are those of any run. Metrics of answers are scores, and tokens
and ends of answers those of the outputs. HELM's other statistics (numbers of tokens and trials, times, probabilities)
are stored as facts of the run, each as HELM's mean over instances. Several train trials of an instance become one
score, their mean, as in HELM. Where HELM scores each option by a request of its own, an option's log-likelihood is that
of the last tokens whose texts are the option's.
Source: crfm-helm 0.5, https://crfm-helm.readthedocs.io
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from assaymark.interop.helm_files import HelmFolder, HelmPerturbation, HelmStat, HelmState, read_folder
from assaymark.interop.imported import (
    AnswerFacts,
    ForeignChoice,
    ForeignCopies,
    ForeignRun,
    ForeignSample,
    Importer,
    WorstCase,
)
from assaymark.interop.log_files import one_model
from assaymark.interop.reported import ReportedValue
from assaymark.perturbations.named import FAMILIES, Perturbation
from assaymark.records import JsonValue, content_hash
from assaymark.results.evidence.records import MetricInput, TaskSummaryInput
from assaymark.scoring.metrics import find_metric, is_higher_better

BOOKKEEPING = re.compile(
    r"num_|finish_reason_|inference_|training_|prompt_truncated|max_prob|batch_size|logprob|perplexity|bits_per_byte|"
    r"predicted_index"
)
ENDS = {"finish_reason_length": "length", "finish_reason_stop": "stop", "finish_reason_endoftext": "eos"}
OF_MODEL = {"model", "model_deployment"}  # arguments in a run's name that do not belong to its task
MAIN_SPLIT = "test"
STRENGTHS = {"misspellings": "prob", "synonym": "prob", "typos": "prob", "dialect": "prob", "gender": "prob",
             "person_name": "prob", "filler_words": "insert_prob", "space": "max_spaces"}  # fmt: skip
CALIBRATION_MODE = "calibration"  # of a request whose log-likelihood is subtracted from the option's


def helm_folders(path: Path) -> list[Path]:
    """Return the run folders at or below a path; empty if there are none."""
    if path.name == "run_spec.json":
        return [path.parent]
    return sorted(file.parent for file in path.rglob("run_spec.json")) if path.is_dir() else []


def read_helm(path: Path) -> ForeignRun:
    """Return the run in a folder of HELM, or in a suite's folder with runs of one model.

    Raises: DataError if a file is missing or not in HELM's format, or the runs are of several models.
    """
    folders = [_HelmRun(read_folder(folder)) for folder in helm_folders(path)]
    model = one_model([run.folder.model for run in folders], path)
    return ForeignRun(
        tool="helm",
        model=model,
        tasks=tuple(task for run in folders for task in run.tasks()),
        samples=tuple(sample for run in folders for sample in run.samples()),
        reported=tuple(value for run in folders for value in run.reported()),
        files=tuple(file for run in folders for file in run.folder.files),
        config={run.task: dict(run.folder.adapter) for run in folders},
        notes=tuple(note for run in folders for note in run.notes()),
        copies={name: copies for run in folders for name, copies in run.copies().items()},
        worst_cases=tuple(each for run in folders for each in run.worst_cases()),
        statistics={name: numbers for run in folders for name, numbers in run.statistics().items()},
    )


@dataclass(frozen=True)
class _HelmRun:
    """One run folder, with the tasks that it becomes: the instances as they are, and their copies by perturbation."""

    folder: HelmFolder

    @cached_property
    def task(self) -> str:
        """The run's name without its model, so that two models' runs are of the same task."""
        name, _, arguments = self.folder.name.partition(":")
        kept = [
            argument for argument in arguments.split(",") if argument and argument.partition("=")[0] not in OF_MODEL
        ]
        return f"{name}:{','.join(kept)}" if kept else name

    @cached_property
    def split(self) -> str:
        """The split whose values are used: the test split if there is one."""
        splits = {state.split or MAIN_SPLIT for state in self.folder.states}
        return MAIN_SPLIT if MAIN_SPLIT in splits or not splits else min(splits)

    @cached_property
    def labels(self) -> Mapping[HelmPerturbation | None, str]:
        """The names of the perturbations, as `--perturb` has them where it does; "" for instances as they are."""
        labels: dict[HelmPerturbation | None, str] = {None: ""}
        for state in self.folder.states:
            if state.perturbation is not None and state.perturbation not in labels:
                label = plain = _label(state.perturbation)
                n_equal = 1
                while label in labels.values():  # same name and strength, but other classes or word lists
                    n_equal += 1
                    label = f"{plain}-{n_equal}"
                labels[state.perturbation] = label
        return labels

    @cached_property
    def states(self) -> Mapping[tuple[str, str], list[HelmState]]:
        """The requests of each instance of the split that is used, by label of the perturbation and id."""
        states: dict[tuple[str, str], list[HelmState]] = {}
        for state in self.folder.states:
            if (state.split or self.split) == self.split:
                states.setdefault((self.labels[state.perturbation], state.instance_id), []).append(state)
        return states

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Each instance's index; a copy has that of its original."""
        originals = [instance for label, instance in self.states if not label]
        return {name: at for at, name in enumerate(dict.fromkeys([*originals, *(name for _, name in self.states)]))}

    def name_of(self, label: str) -> str:
        """Return the name of the task with the copies by a perturbation."""
        return f"{self.task}~{label}" if label else self.task

    def copies(self) -> dict[str, ForeignCopies]:
        """Return the tasks that are copies of the instances as they are, if these were evaluated too."""
        used = {label for label, _ in self.states}
        if "" not in used:
            return {}
        return {
            self.name_of(label): ForeignCopies(self.task, label, perturbation.family)
            for perturbation, label in self.labels.items()
            if perturbation is not None and label in used
        }

    def tasks(self) -> Iterator[TaskSummaryInput]:
        """Yield the facts of the task, and of each task of copies."""
        shots = max((state.n_shots for state in self.folder.states), default=0)
        metrics = tuple(MetricInput(name, higher_is_better=is_higher_better(name)) for name in self._metrics())
        copies = self.copies()
        for label in dict.fromkeys(["", *(label for label, _ in self.states)] if self.states else [""]):
            name = self.name_of(label)
            if label or not self.states or any(not own for own, _ in self.states):
                yield TaskSummaryInput(
                    name=name,
                    metrics=metrics,
                    output_type="generate_until",
                    num_fewshot=shots,
                    copy_of=self.task if name in copies else None,
                )

    def _metrics(self) -> dict[str, float]:
        plain = [stat for stat in self.folder.stats if stat.perturbation is None]
        any_stat = plain or [stat for stat in self.folder.stats if stat.perturbation is not None]
        return _measured(any_stat, self.split)

    def reported(self) -> Iterator[ReportedValue]:
        """Yield HELM's own means: of the instances, and of the copies by each perturbation."""
        for perturbation, label in self.labels.items():
            n = len({name for own, name in self.states if own == label})
            own = [
                stat for stat in self.folder.stats if stat.perturbation == perturbation and stat.sub_split is None
            ]  # means of sub-splits are not means over all instances
            for name, value in _measured(own, self.split).items():
                if n or (not label and not self.states):
                    yield ReportedValue(self.name_of(label), name, value, None, n)

    def statistics(self) -> dict[str, dict[str, float]]:
        """Return HELM's means other than scores, by task: all that have a value, of the split that is used."""
        numbers = {}
        for perturbation, label in self.labels.items():
            own = [stat for stat in self.folder.stats if stat.perturbation == perturbation and stat.sub_split is None]
            known, scores = _stats_of(own, self.split), _measured(own, self.split)
            if kept := {name: value for name, value in known.items() if name not in scores}:
                numbers[self.name_of(label)] = kept
        return numbers

    def worst_cases(self) -> Iterator[WorstCase]:
        """Yield HELM's worst cases of the families."""
        for family in FAMILIES:
            own = [
                stat
                for stat in self.folder.stats
                if stat.perturbation is not None
                and (stat.perturbation.name, stat.perturbation.computed_on) == (family, "worst")
                and stat.sub_split is None
            ]
            for name, value in _measured(own, self.split).items():
                yield WorstCase(self.task, name, family, value)

    def notes(self) -> Iterator[str]:
        """Yield notes on the parts of the folder that are not imported."""
        others = {state.split for state in self.folder.states} - {self.split, None}
        if others:
            n = len({(state.split, state.instance_id) for state in self.folder.states if state.split in others})
            yield f"{self.task}: {n:,} instances of other splits than {self.split} are not imported"
        lacking = [name for name in self.places if ("", name) not in self.states]
        if lacking and self.copies():
            yield f"{self.task}: {len(lacking):,} perturbed instances have no original; they are paired with nothing"
        n_cut = len({(state.instance_id, state.trial) for state in self.folder.states if state.is_truncated})
        if n_cut:
            yield f"{self.task}: HELM cut the prompts of {n_cut:,} instances on the right to fit the model's context"

    def samples(self) -> Iterator[ForeignSample]:
        """Yield each instance, and each copy with the hash of its original's row."""
        scores: dict[tuple[str, str], dict[str, dict[int, float]]] = {}
        counts: dict[tuple[str, str], dict[int, AnswerFacts]] = {}
        for entry in self.folder.per_instance:
            label = self.labels.get(entry.perturbation)
            if label is None:
                continue  # of no request
            own = scores.setdefault((label, entry.instance_id), {})
            for name, value in _measured(entry.stats, self.split).items():
                own.setdefault(name, {})[entry.trial] = value
            counts.setdefault((label, entry.instance_id), {})[entry.trial] = _counts(_stats_of(entry.stats, self.split))
        for key, states in self.states.items():
            label, instance = key
            row = _row(states[0])
            original = self.states.get(("", instance))
            by_trial = {
                name: [values[trial] for trial in sorted(values)] for name, values in scores.get(key, {}).items()
            }
            yield _sample(
                self.name_of(label),
                self.places[instance],
                row,
                states,
                by_trial,
                counts.get(key, {}),
                sha256=content_hash(dict(_row(original[0]) if original else row)),
            )


def _label(perturbation: HelmPerturbation) -> str:
    """Return the label under which copies by a perturbation are known here: `typos:0.05`; HELM's name for others."""
    settings = dict(perturbation.settings)
    name = "gender_terms" if perturbation.name == "gender" and settings.get("mode") == "terms" else perturbation.name
    strength = settings.get(STRENGTHS.get(perturbation.name, ""))
    label = name.replace("~", "-")
    if isinstance(strength, int | float) and not isinstance(strength, bool):
        label = Perturbation(name, float(strength)).label
    return label if perturbation.seed is None else f"{label}-seed{perturbation.seed}"


def _stats_of(stats: Sequence[HelmStat], split: str) -> dict[str, float]:
    """Return the statistics of this split by name, without those that HELM computed on nothing."""
    return {stat.name: stat.mean for stat in stats if stat.mean is not None and (stat.split or split) == split}


def _counts(known: Mapping[str, float]) -> AnswerFacts:
    """Return the tokens and the finish reason that the statistics of one answer state."""
    return AnswerFacts(
        round(known.get("num_prompt_tokens", 0)),
        round(known.get("num_output_tokens", 0)),
        next((end for name, end in ENDS.items() if known.get(name) == 1), None),
    )


def _measured(stats: Sequence[HelmStat], split: str) -> dict[str, float]:
    """Return the metrics of answers of this split by name."""
    known = _stats_of(stats, split)
    of_answers = {name: value for name, value in known.items() if not BOOKKEEPING.match(name) and "@" not in name}
    return of_answers or {name: value for name, value in known.items() if _measures_text(name)}


def _measures_text(name: str) -> bool:
    """Return whether a metric says how probable a text is: all that there is where a text is scored."""
    row = find_metric(name)
    return row is not None and row.measures_text


def _row(state: HelmState) -> dict[str, JsonValue]:
    return {
        "input": dict(state.input),
        "references": [{"text": text, "tags": list(tags)} for text, tags in state.references],
    }


def _sample(
    task: str,
    index: int,
    row: Mapping[str, JsonValue],
    states: Sequence[HelmState],
    scores: Mapping[str, Sequence[float]],
    counts: Mapping[int, AnswerFacts],
    *,
    sha256: str,
) -> ForeignSample:
    """Return a sample. scores: of each metric the value of each trial; counts: of each trial's answer."""
    first = states[0]
    right = [at for at, (_, tags) in enumerate(first.references) if "correct" in tags]
    failed = [state for state in states if state.error is not None]
    by_reference = any(state.reference is not None for state in states)
    n_trials = max((len(values) for values in scores.values()), default=1)
    return ForeignSample(
        task=task,
        index=index,
        row=row,
        prompt=first.prompt,
        target=" or ".join(first.references[at][0] for at in right),
        scores={name: sum(values) / len(values) for name, values in scores.items()},
        answers=() if by_reference else tuple(state.answer for state in states if state.answer is not None),
        counts=tuple(counts.get(state.trial, AnswerFacts()) for state in states if state.answer is not None),
        choices=_choices(states) if by_reference else (),
        gold=right[0] if len(right) == 1 else None,
        n_choices=first.n_letters,
        n_shots=first.n_shots,
        error=failed[0].error if failed and not scores else None,
        sha256=sha256,
        by_trial={name: tuple(values) for name, values in scores.items()} if n_trials > 1 else {},
    )


def _choices(states: Sequence[HelmState]) -> tuple[ForeignChoice, ...]:
    """Return the options with their log-likelihoods in the first trial; empty where one cannot be had from the tokens.

    An option that is calibrated has that of its text after "Answer:" subtracted, as HELM does.
    """
    references, trial = states[0].references, min(state.trial for state in states)
    nats: dict[tuple[int, bool], float | None] = {
        (state.reference, state.mode == CALIBRATION_MODE): _option_nats(state)
        for state in states
        if state.reference is not None and state.trial == trial and state.reference < len(references)
    }
    is_calibrated = any(calibrates for _, calibrates in nats)
    choices = []
    for at, (text, _) in enumerate(references):
        own, base = nats.get((at, False)), nats.get((at, True)) if is_calibrated else 0.0
        if own is None or base is None:
            return ()
        choices.append(ForeignChoice(f" {text}", own - base))
    return tuple(choices)


def _option_nats(state: HelmState) -> float | None:
    """Return the log-likelihood of the last tokens that make up the option; None where no token begins with it."""
    text = "" if state.reference is None else state.references[state.reference][0]
    rest, nats = text.strip(), 0.0
    for token, own in reversed(state.tokens):
        part = token.strip() if rest == token.strip() else token
        if own is None or not part or not rest.endswith(part):
            return None
        nats, rest = nats + own, rest[: -len(part)]
        if not rest:
            return nats
    return None


IMPORTER = Importer(helm_folders, read_helm, "HELM's run folders")
