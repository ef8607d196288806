"""Tasks that are Python classes of lm-evaluation-harness (`class: !function task.SQuAD2`), run through an adapter.

Such a class builds its own requests and scores its own results; the adapter converts its instances to our requests,
and our outputs to what it expects.

Bind a task to its rows and the options of a run: as a YAML task or as a Python class.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from assaymark.errors import AssaymarkError, DataError, MalformedSample, MissingExtra, PlanError
from assaymark.limits.characters import exception_text
from assaymark.prompts.few_shot import DrawRules, Shots
from assaymark.records import (
    GenerateQuery,
    LoglikelihoodQuery,
    Message,
    Output,
    Query,
    Render,
    Request,
    RollingQuery,
    Sample,
    Score,
    ScoreStatus,
    TaskPlan,
    TextPart,
    content_hash,
)
from assaymark.scoring.run_code import Sandbox
from assaymark.tasks.bound import BindOptions, BoundSamples, BoundTask, chosen_indices, drawn_indices, n_shots_of
from assaymark.tasks.functions import load_function, published_seeds
from assaymark.tasks.generated_code import refuse_unconfirmed_code
from assaymark.tasks.generation import settings_of
from assaymark.tasks.sample_scores import as_value, by_query
from assaymark.tasks.simulated_tasks import BoundSimulatedTask
from assaymark.tasks.task import MetricSpec, Task
from assaymark.tasks.task_index import why_not_runnable
from assaymark.tasks.yaml_tasks import BoundYamlTask

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.task import Task as LmEvalTask


def bind(task: Task, options: BindOptions) -> BoundTask:
    """Load the task's rows and return the task bound to them and to the options.

    Raises: DataError, MalformedSample, PlanError; MissingExtra for data that only the Hub has.
    """
    if task.python_class is not None:
        return BoundPythonTask(task, options)
    reason = why_not_runnable(task.spec)
    if reason is not None:
        raise PlanError(f"task {task.name} cannot run: {reason}")
    refuse_unconfirmed_code(task, confirmed=options.confirm_unsafe_code)
    try:
        return BoundYamlTask(task, options) if task.prompt.simulator is None else BoundSimulatedTask(task, options)
    except MalformedSample as error:
        raise MalformedSample(f"task {task.name} ({task.source}), sample 0: {error}") from error
    except DataError as error:
        raise DataError(f"task {task.name} ({task.source}): {error}") from error


class BoundPythonTask(BoundSamples):
    """A `BoundTask` around a class of lm-evaluation-harness."""

    dataset_revision: str | None = None  # as for its rows
    sandbox: Sandbox | None = None  # such a class runs code itself, if at all

    def __init__(self, task: Task, options: BindOptions) -> None:
        if find_spec("lm_eval") is None:
            raise MissingExtra(f"task '{task.name}', which is a Python class,", "lm-eval")
        self.task = task
        self.options = options
        self.not_circular = "it is a Python class of lm-eval" if options.circular else None
        self._theirs = _instance_of(task)
        if not hasattr(self._theirs, "eval_docs"):
            raise DataError(f"task {task.name} ({task.source}): its class {type(self._theirs).__name__} is no task; "
                            "expected a subclass of lm_eval.api.task.Task")  # fmt: skip
        docs = self._theirs.eval_docs
        self._docs: Sequence[Mapping[str, object]] = docs
        self.n_original = len(docs)
        self.n_shots = n_shots_of(task, options)
        seed = options.profile.seed if options.seed is None else options.seed
        self._theirs.set_config(key="num_fewshot", value=self.n_shots)
        self._theirs.set_fewshot_seed(seed=seed)
        self.indices = chosen_indices(self.n_original, DrawRules(self.n_shots, seed), options, task.name)
        better = self._theirs.higher_is_better()
        self.metrics = tuple(
            MetricSpec(name, str(getattr(function, "__name__", "class")), bool(better.get(name, True)))
            for name, function in self._theirs.aggregation().items()
        )
        self.aggregations: Mapping[str, Callable[[Sequence[object]], object]] = self._theirs.aggregation()

    @property
    def plan(self) -> TaskPlan:
        """The part of the run key for this task; the data set's hash is that of its rows."""
        drawn = drawn_indices(self.n_original, self.options)
        return TaskPlan(
            name=self.task.name,
            version=str(getattr(self._theirs, "VERSION", "Python")),
            spec_hash=self.task.spec_hash,
            dataset_hash=content_hash([sample.sha256 for sample in self._samples]),
            num_fewshot=self.n_shots,
            n_samples=len(self.indices),
            sample_indices=self.options.sample_indices if drawn is None else drawn,
            drawn=None if drawn is None else {"of": self.n_original, "by": "HELM"},
            generation=[asdict(query.settings) for query in self._queries_of_first if isinstance(query, GenerateQuery)]
            or None,
        )

    @cached_property
    def _samples(self) -> tuple[Sample, ...]:
        rows = [dict(self._docs[i]) for i in self.indices]
        return tuple(
            Sample(self.task.name, i, row, content_hash(row)) for i, row in zip(self.indices, rows, strict=True)
        )

    @cached_property
    def _queries_of_first(self) -> tuple[Query, ...]:
        return self.request(self._samples[0], _plain_render).queries

    @cached_property
    def _contexts(self) -> dict[int, str | list[object]]:
        return {}

    def shots_of(self, sample: Sample) -> Shots:  # noqa: ARG002 - shots are unknown
        """Return no shots; where there are any, only the class knows which rows they are.

        Raises: PlanError where there are shots.
        """
        if self.n_shots:
            raise PlanError(
                f"task {self.task.name} is a Python class, whose {self.n_shots} shots are unknown; use "
                "--num_fewshot 0, or a task that is a YAML file"
            )
        return ()

    def shot(self, place: int) -> Sample:
        """Raise PlanError: only the class knows the rows of its shots."""
        raise PlanError(f"task {self.task.name} is a Python class; row {place} of its pool of shots is unknown")

    def alone(self, sample: Sample, render: Render | None = None) -> Request:  # noqa: ARG002 - not supported
        """Raise PlanError: the class makes prompts only for its own rows."""
        raise PlanError(f"task {self.task.name} is a Python class, which makes no prompts for other rows")

    def request(self, sample: Sample, render: Render | None = None) -> Request:
        """Return the request of one sample. Shots are drawn in order, so the samples before it are rendered first."""
        doc = self._docs[sample.index]
        try:
            context = self._context(sample, self.options.renderer(render))
            constructed = self._theirs.construct_requests(
                doc=doc,
                ctx=context,
                metadata=(self.task.name, sample.index, 1),
                apply_chat_template=False,
                chat_template=None,
            )
        except AssaymarkError:
            raise
        except Exception as error:
            raise DataError(
                f"task {self.task.name}, sample {sample.index}: its class failed: {exception_text(error)}"
            ) from error
        instances = constructed if isinstance(constructed, list) else [constructed]
        return Request(
            task=self.task.name,
            sample_index=sample.index,
            sample_sha256=sample.sha256,
            segments=(context,) if isinstance(context, str) else (),
            queries=tuple(self._query(i, instance, context) for i, instance in enumerate(instances)),
            target=str(self._theirs.doc_to_target(doc)),
            n_shots=self.n_shots,
        )

    def _context(self, sample: Sample, render: Render | None) -> str | list[object]:
        if sample.index not in self._contexts:
            for earlier in self._samples:
                if earlier.index not in self._contexts:
                    self._contexts[earlier.index] = self._new_context(self._docs[earlier.index], render)
                if earlier.index == sample.index:
                    break
        return self._contexts[sample.index]

    def _new_context(self, doc: Mapping[str, object], render: Render | None) -> str | list[object]:
        options = self.options
        context: str | list[object] = self._theirs.fewshot_context(
            doc,
            num_fewshot=self.n_shots,
            system_instruction=options.system_instruction,
            apply_chat_template=options.apply_chat_template,
            fewshot_as_multiturn=options.fewshot_as_multiturn,
            chat_template=_template(render) if options.apply_chat_template else None,
            gen_prefix=self._theirs.doc_to_prefix(doc),
        )
        return context

    def _query(self, index: int, instance: "Instance", context: str | list[object]) -> Query:
        arguments = instance.arguments
        segments = None if arguments[0] == context else (arguments[0],)
        match instance.request_type:
            case "loglikelihood":
                return LoglikelihoodQuery(index, arguments[1], segments)
            case "loglikelihood_rolling":
                return RollingQuery(index, arguments[0])
            case "generate_until" if segments is None:
                return GenerateQuery(index, settings_of(self.task.name, {**arguments[1], **self.options.gen_kwargs}))
        raise PlanError(f"task {self.task.name} requests {instance.request_type}, which is not supported")

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return the scores that the class computes."""
        failure = next((output.error for output in outputs if output.error), None)
        answers = by_query(request, outputs)
        if failure is None and any(not answers[query.index] for query in request.queries):
            failure = "there is no answer"
        if failure is not None:
            status = ScoreStatus.FAILED
            return tuple(Score(request.id, m.name, None, status=status, detail=failure) for m in self.metrics)
        results = [answers[query.index][0] for query in request.queries]
        values = self._theirs.process_results(self._docs[sample.index], results)
        scored = {str(name): as_value(value) for name, value in values.items()}
        return tuple(Score(request.id, n, v.value, parts=v.parts, detail=v.detail) for n, v in scored.items())


def _instance_of(task: Task) -> "LmEvalTask":
    if task.python_class is None:
        raise PlanError(f"task {task.name} is not a Python class")
    own_class = load_function(task.python_class, task.trusted)
    config = {key: value for key, value in task.spec.items() if key not in {"class", "tag", "group", "task_list"}}
    try:
        with published_seeds():
            theirs = own_class(config=config) if "config" in inspect.signature(own_class).parameters else own_class()
    except Exception as error:
        raise DataError(
            f"class {task.python_class.path} of task {task.name} cannot be created: {exception_text(error)}"
        ) from error
    return theirs


def _plain_render(messages: Sequence[Message], continue_final: bool, /, tools: str | None = None) -> str:
    del tools  # lm-eval's classes have none
    return "\n".join(message.text for message in messages) + ("" if continue_final else "\n")


def _template(render: Render | None) -> Callable[..., str]:
    if render is None:
        raise PlanError("a chat template is needed for this task")

    def template(history: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> str:
        messages = [Message(turn["role"], (TextPart(turn["content"]),)) for turn in history]  # type: ignore[arg-type]
        return render(messages, not add_generation_prompt)

    return template
