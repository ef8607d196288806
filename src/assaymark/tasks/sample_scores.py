"""Score a sample's outputs with the functions of `scoring`, or of the task itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from traceback import extract_tb
from typing import cast

from assaymark.errors import AssaymarkError, MalformedSample, ModelError
from assaymark.limits.characters import exception_text
from assaymark.limits.regexes import RegexTooSlow
from assaymark.prompts.prompter import PromptFields
from assaymark.prompts.questions import LETTERS
from assaymark.records import (
    BOUND,
    FIRST_TOKEN,
    LoglikelihoodQuery,
    Output,
    Request,
    Row,
    Sample,
    Score,
    ScoreStatus,
    rotations_of,
)
from assaymark.records.json_values import json_of
from assaymark.scoring import generation
from assaymark.scoring.call_match import score_calls
from assaymark.scoring.choices import (
    ChoiceAnswer,
    Gold,
    gold_is_absent,
    of_first_tokens,
    score_choices,
    score_rotations,
)
from assaymark.scoring.filters import Pipeline, build_filter, build_pipeline
from assaymark.scoring.loglikelihood import score_loglikelihood, score_rolling
from assaymark.scoring.metric import LOGLIKELIHOOD, TOOL_CALLS, ScoreValue
from assaymark.scoring.metrics import defaults_for, find_metric, is_higher_better, may_be_share, names_for
from assaymark.scoring.tool_calls import text_of_tool_calls
from assaymark.tasks.circular import circular_metrics
from assaymark.tasks.functions import load_function, loader_of, published_seeds
from assaymark.tasks.self_critique import LAST_TURN
from assaymark.tasks.spec_hash import file_of
from assaymark.tasks.task import FunctionRef, MetricSpec, Task
from assaymark.tasks.tool_use import ToolUse

Functions = Mapping[str, Callable[..., object]]  # the task's own metrics by name
OwnScoring = Callable[[Row, Sequence[object]], Mapping[str, object]]  # lm-eval's process_results


class SampleScorer:
    """Scores the samples of one task."""

    def __init__(
        self,
        task: Task,
        layout: PromptFields,
        *,
        multiple_input: bool,
        multiple_targets: bool,
        tool_use: ToolUse | None = None,
    ) -> None:
        self.task = task
        self.layout = layout
        self.tool_use = tool_use
        self.multiple_input = multiple_input
        self.multiple_targets = multiple_targets
        self._loaded: tuple[list[Pipeline], Functions, OwnScoring | None] | None = None
        self._check_options()

    def _check_options(self) -> None:
        """Raise for filters and options that are not known, before any request is sent; no code of the task is run."""
        for step in (step for spec in self.task.filters for step in spec.steps):
            if isinstance(step.function, str) and not any(
                isinstance(each, FunctionRef) for each in step.kwargs.values()
            ):
                build_filter(step.function, step.kwargs)
        for metric in self.task.metrics:
            if metric.name == "exact_match" and metric.function is None:
                generation.ExactMatchOptions.from_mapping(metric.kwargs)

    def _load(self) -> tuple[list[Pipeline], Functions, OwnScoring | None]:
        """Import the task's own code at the first sample that is scored."""
        if self._loaded is None:
            task, load = self.task, loader_of(self.task)
            pipelines = [
                build_pipeline(
                    spec.name,
                    [
                        {"function": load(step.function), **{key: load(value) for key, value in step.kwargs.items()}}
                        for step in spec.steps
                    ],
                )
                for spec in task.filters
            ]
            functions = {
                metric.name: load_function(metric.function, task.trusted) for metric in task.metrics if metric.function
            }
            process: OwnScoring | None = None
            if task.process_results is not None:
                process = load_function(task.process_results, task.trusted)
            self._loaded = (pipelines, functions, process)
        return self._loaded

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return one score per filter and metric; all are FAILED if any query has no answer.

        Of an answer that is criticised and revised only the last one has scores.
        """
        if self.task.prompt.critique is not None and request.turn < LAST_TURN:
            return ()
        answers = by_query(request, outputs if self.tool_use is None else [_with_calls(each) for each in outputs])
        failure = next((output.error for output in outputs if output.error), None)
        if failure is None and any(not answers[query.index] for query in request.queries):
            failure = "there is no answer"
        if failure is not None:
            return self._failed(request, failure)
        pipelines, _, process = self._load()
        is_first_token = any(output.finish_reason in {FIRST_TOKEN, BOUND} for output in outputs)
        n_outside = sum(output.finish_reason == BOUND for output in outputs)
        if n_outside and (process is not None or rotations_of(request)):
            return self._failed(request, f"{n_outside} choices are not among the server's most probable first tokens, "
                                "and the task's scores need every choice's probability")  # fmt: skip
        lengths = {output.ask_index: output.n_tokens for output in outputs}
        scores: list[Score] = []
        for pipeline in pipelines:
            try:
                of_pipeline = self._filtered(request, sample, answers, pipeline, lengths)
                scores += of_first_tokens(of_pipeline, n_outside) if is_first_token else of_pipeline
            except ModelError as error:
                return self._failed(request, str(error))
            except RegexTooSlow as error:
                where = f"task {self.task.name} ({self.task.source}), filter {pipeline.name}"
                return self._failed(request, f"{where}, sample {sample.index}: {error}")
            except MalformedSample as error:
                raise self._of(sample, error) from error
        return tuple(scores)

    def _of(self, sample: Sample, error: MalformedSample) -> MalformedSample:
        return MalformedSample(f"task {self.task.name} ({self.task.source}), sample {sample.index}: {error}")

    def _failed(self, request: Request, why: str) -> tuple[Score, ...]:
        return tuple(
            Score(request.id, metric.name, None, name, ScoreStatus.FAILED, detail=why)
            for metric in (*self.task.metrics, *(circular_metrics(self.task) if rotations_of(request) else ()))
            for name in metric.filters
        )

    def _filtered(
        self,
        request: Request,
        sample: Sample,
        answers: Mapping[int, list[object]],
        pipeline: Pipeline,
        lengths: Mapping[int, int],
    ) -> list[Score]:
        generates = self.task.output_type == "generate_until"
        results = [
            answers[query.index][0]  # filters apply to the generated text, not to `also_loglikelihood`
            if generates and isinstance(query, LoglikelihoodQuery)
            else pipeline.apply_one(answers[query.index], sample.row)
            for query in request.queries
        ]
        if self.layout.listed_options is not None:
            results[0] = _letter_of(str(results[0]), self.layout.listed_options(sample.row))
        _, functions, process = self._load()
        own = [metric for metric in self.task.metrics if pipeline.name in metric.filters]
        status = ScoreStatus.SCORED
        if self.task.output_type == "generate_until" and generation.is_unparsed(results[0], pipeline.fallbacks):
            status = ScoreStatus.UNPARSED
        if process is not None:
            values = self._own_values(process, sample, results)
        elif self.tool_use is not None:
            values, status = self._of_calls(
                self.tool_use, sample, cast("str | Sequence[object]", results[0]), functions
            )
        else:
            try:
                values = self._values(request, sample, results, own, functions, lengths)
            except AssaymarkError:
                raise
            except Exception as error:
                if not functions:
                    raise
                raise MalformedSample(f"its metric failed: {exception_text(error)}{self._place_of(error)}") from error
        # a task's own functions do not state what they were given, which exports and pages name
        is_filtered = generates and results[0] != answers[request.queries[0].index][0]
        given = {"extracted": json_of(results[0])} if is_filtered else {}
        # nor is a 1 right where the file says that lower is better
        of_errors = {each.name for each in own if not each.higher_is_better and find_metric(each.name) is None}
        scores = []
        for name, value in values.items():
            detail = value.detail
            if isinstance(detail, dict | None):
                detail = {**given, **({"is_share": False} if name in of_errors else {}), **(detail or {})} or None
            status_here = _status(status, name, value)
            scores.append(Score(request.id, name, value.value, pipeline.name, status_here, value.parts, detail))
        return scores

    def _place_of(self, error: Exception) -> str:
        """Return where in the files of the task's metrics an error was raised; empty where in none of them."""
        files = {str(file) for each in self.task.metrics if each.function and (file := file_of(each.function))}
        frames = [frame for frame in extract_tb(error.__traceback__) if frame.filename in files]
        return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""

    def _of_calls(
        self, use: ToolUse, sample: Sample, answer: str | Sequence[object], functions: Functions
    ) -> tuple[dict[str, ScoreValue], ScoreStatus]:
        """Return the scores of an answer with calls; metrics of texts compare it with a right answer's text."""
        kwargs = {metric.name: metric.kwargs for metric in self.task.metrics}
        of_calls = [name for name in kwargs if name in names_for(TOOL_CALLS)]
        scores, status = score_calls(
            answer if isinstance(answer, str) else str(answer[0]), use.expected(sample.row), use.functions(sample.row),
            of_calls, use.rules
        )  # fmt: skip
        of_text = {name: options for name, options in kwargs.items() if name not in of_calls}
        if of_text:
            scores |= generation.score_generation(answer, use.answer(sample.row), of_text, functions=functions)
        return scores, status

    def _own_values(self, process: OwnScoring, sample: Sample, results: Sequence[object]) -> dict[str, ScoreValue]:
        try:
            with published_seeds(sample.index):
                own_values = process(sample.row, results)
            return {str(name): as_value(value) for name, value in own_values.items()}
        except AssaymarkError:
            raise
        except Exception as error:
            raise MalformedSample(f"its scoring function failed: {exception_text(error)}") from error

    def _values(
        self,
        request: Request,
        sample: Sample,
        results: Sequence[object],
        own: Sequence[MetricSpec],
        functions: Functions,
        lengths: Mapping[int, int],
    ) -> dict[str, ScoreValue]:
        metrics = [metric.name for metric in own]
        match self.task.output_type:
            case "multiple_choice":
                pairs = cast("Sequence[tuple[float, bool]]", results)  # as `by_query` makes them
                return self._choices(request, sample, pairs, functions, lengths)
            case "loglikelihood":
                nats, is_greedy = cast("tuple[float, bool]", results[0])
                # lm-eval silently omits what a log-likelihood task cannot compute (acc_norm)
                computable = defaults_for(LOGLIKELIHOOD)
                return score_loglikelihood(nats, is_greedy, [metric for metric in metrics if metric in computable])
            case "loglikelihood_rolling":
                return score_rolling(cast("float", results[0]), self.layout.target(sample.row), metrics)
            case "generate_until":
                options = {metric.name: metric.kwargs for metric in own}
                return generation.score_generation(
                    results[0],
                    self._reference(sample),
                    options,
                    multiple_targets=self.multiple_targets,
                    functions=functions,
                )

    def _choices(
        self,
        request: Request,
        sample: Sample,
        results: Sequence[tuple[float, bool]],
        functions: Functions,
        lengths: Mapping[int, int],
    ) -> dict[str, ScoreValue]:
        options = {metric.name: metric.kwargs for metric in self.task.metrics}
        queries = [query for query in request.queries if isinstance(query, LoglikelihoodQuery)]
        conditional = [result for query, result in zip(queries, results, strict=True) if query.role == "choice"]
        free = [result[0] for query, result in zip(queries, results, strict=True) if query.role == "unconditional"]
        choices, gold = self._choices_and_gold(sample)
        own = score_choices(
            [nats for nats, _ in conditional],
            [greedy for _, greedy in conditional],
            free or None,
            choices,
            gold,
            list(options),
            [lengths[query.index] for query in queries if query.role == "choice"],
            {name: partial(_value_of, function, options[name]) for name, function in functions.items()},
        )
        rotations = rotations_of(request)
        if not rotations:
            return own
        nats_of = {query.index: nats for query, (nats, _) in zip(queries, results, strict=True)}
        rotated = [[nats_of[query.index] for query in rotation] for rotation in rotations]
        return own | score_rotations([[nats for nats, _ in conditional], *rotated], choices, gold)

    def _choices_and_gold(self, sample: Sample) -> tuple[list[str], Gold]:
        choices = [str(choice) for choice in self.layout.choices(sample.row)] if self.layout.choices else []
        return choices, self.layout.text(sample.row) if self.multiple_input else self.layout.target(sample.row)

    def gold_is_absent(self, sample: Sample) -> bool:
        """Return whether the sample's gold answer is none of its choices; False where the task scores by itself.

        Raises: MalformedSample for a row that lacks what its task needs.
        """
        if self.task.output_type != "multiple_choice" or self.task.process_results is not None:
            return False
        choices, gold = self._choices_and_gold(sample)
        try:
            return gold_is_absent(gold, choices)
        except MalformedSample as error:
            raise self._of(sample, error) from error

    def _reference(self, sample: Sample) -> object:
        gold = self.layout.target(sample.row)
        if self.layout.choices is None:
            return gold
        choices = self.layout.choices(sample.row)
        if not isinstance(gold, int) or not -len(choices) <= gold < len(choices):
            raise MalformedSample(
                f"doc_to_target gives {gold!r:.80}; expected the position of one of the {len(choices)} choices"
            )
        return choices[gold]


def _letter_of(answer: str, options: Sequence[str]) -> str:
    """Return the letter of the option that an answer is, by letter or by text; else the answer.

    Source: HELM 63754d05, `RequestState.output_mapping` and `exact_match`.
    """
    stripped = answer.strip()
    letters = LETTERS[: len(options)]
    if not stripped or (len(stripped) == 1 and stripped in letters):
        return stripped
    texts = [option.strip() for option in options]
    return letters[texts.index(stripped)] if stripped in texts else stripped


def _status(status: ScoreStatus, metric: str, value: ScoreValue) -> ScoreStatus:
    """Return a score's status: an empty answer that is right, as for an empty reference, is an answer."""
    is_right = value.value == 1.0 and may_be_share(metric) and is_higher_better(metric)
    return ScoreStatus.SCORED if status is ScoreStatus.UNPARSED and is_right else status


def _with_calls(output: Output) -> Output:
    """Return an output whose text is a server's calls, where it made any."""
    return output if output.tool_calls is None else replace(output, text=text_of_tool_calls(output.tool_calls))


def by_query(request: Request, outputs: Sequence[Output]) -> dict[int, list[object]]:
    """Return query index -> raw results by repeat: (nats, greedy), nats, or text, as lm-eval's `resps`."""
    answers: dict[int, list[object]] = {query.index: [] for query in request.queries}
    kinds = {query.index: query for query in request.queries}
    for output in sorted(outputs, key=lambda output: (output.ask_index, output.repeat)):
        if output.ask_index not in kinds or output.error:
            continue
        if isinstance(kinds[output.ask_index], LoglikelihoodQuery):
            answers[output.ask_index].append((output.total_nats, bool(output.is_greedy)))
        else:
            answers[output.ask_index].append(output.text if output.text is not None else output.total_nats)
    return answers


def _value_of(function: Callable[..., object], options: Mapping[str, object], answer: ChoiceAnswer) -> ScoreValue:
    """Return the score by a metric of choices that another package, or the task itself, has."""
    return as_value(function(answer, **options))


def as_value(value: object) -> ScoreValue:
    """Convert the result of a task's own function: a number to the value, anything compound to parts.

    A text or mapping is one part, marked `wrapped` in `detail`: an aggregation function takes the part, not the tuple.
    """
    if isinstance(value, ScoreValue):
        return value
    if value is None:
        return ScoreValue(None)
    plain = _plain(value)
    if isinstance(plain, (bool, int, float)):
        return ScoreValue(float(plain))
    if isinstance(plain, list):
        return ScoreValue(None, parts=tuple(plain))
    return ScoreValue(None, parts=(plain,), detail={"wrapped": True})


def _plain(value: object) -> object:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return value
