"""Tasks described by a YAML file, bound to their rows: prompts made from fields, scores from metrics and filters.

Draw shots with a task's own sampler class, through the interface of lm-evaluation-harness.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, overload

from assaymark.datasets import Rows
from assaymark.errors import DataError, MalformedSample, PlanError
from assaymark.limits.characters import exception_text
from assaymark.prompts.few_shot import DrawRules, LeakGuard, Shots, draw_by_label, draw_shots
from assaymark.prompts.fields import (
    first_turn,
    resolve_choices,
    resolve_loose,
    resolve_one_target,
    resolve_own,
    resolve_target,
    resolve_text,
    resolve_turns,
)
from assaymark.prompts.images import messages_with, placing
from assaymark.prompts.prompt_styles import styled_description, styled_layout
from assaymark.prompts.prompter import ChatOptions, Prompt, Prompter, PromptFields
from assaymark.prompts.questions import LETTERS
from assaymark.prompts.tools import tools_for_template, tools_prompt
from assaymark.records import (
    GenerateQuery,
    LoglikelihoodQuery,
    Output,
    Query,
    Render,
    Request,
    RollingQuery,
    Row,
    Sample,
    Score,
    TaskPlan,
    content_hash,
)
from assaymark.scoring.metrics import context_without_question
from assaymark.scoring.run_code import Sandbox
from assaymark.tasks.bad_rows import fault_finder
from assaymark.tasks.bound import BindOptions, chosen_indices, drawn_indices, n_shots_of
from assaymark.tasks.circular import RotatedPrompts, circular_metrics, why_not_circular
from assaymark.tasks.functions import load_function, loader_of
from assaymark.tasks.generated_code import sandbox_of, score_in
from assaymark.tasks.generation import AnswerSettings, answer_settings
from assaymark.tasks.images import TaskImages, hash_of_rows
from assaymark.tasks.messages import next_turn, reference_of, resolve_messages
from assaymark.tasks.sample_scores import SampleScorer
from assaymark.tasks.self_critique import SelfCritique
from assaymark.tasks.simulated_conversations import gold_text
from assaymark.tasks.task import FunctionRef, MetricSpec, PromptSpec, Task
from assaymark.tasks.task_rows import TaskRows
from assaymark.tasks.tool_use import ToolUse, tool_use_of

if TYPE_CHECKING:
    from lm_eval.api.samplers import ContextSampler


def draw_with_class(
    sampler: "Callable[..., ContextSampler]", samples: Sequence[Sample], pool: list[Row], rules: DrawRules
) -> list[Shots]:
    """Return the shots of each sample as indices in the pool; rows that are not in the pool are appended to it.

    Raises: PlanError if the class fails when used as lm-evaluation-harness uses it.
    """
    try:
        drawer = sampler(list(pool), rnd=None)
        drawer.set_rnd(rules.seed)
        drawn = [drawer.sample(n=rules.n_shots, eval_doc=s.row if rules.exclude else None) for s in samples]
    except (TypeError, AttributeError, NotImplementedError, AssertionError, ValueError) as error:
        raise PlanError(f"the task's sampler {sampler!r} failed: {exception_text(error)}") from error
    indices = {id(row): index for index, row in enumerate(pool)}
    shots = []
    for rows in drawn:
        for row in rows:
            if id(row) not in indices:
                indices[id(row)] = len(pool)
                pool.append(row)
        shots.append(tuple(indices[id(row)] for row in rows))
    return shots


class _RowSamples(Sequence[Sample]):
    """The samples of rows, each made when it is read: hashing all rows takes longer than a short run needs."""

    def __init__(self, task: str, rows: Rows, indices: Sequence[int]) -> None:
        self._task, self._rows, self._indices = task, rows, indices
        self._read: dict[int, Sample] = {}

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, key: int) -> Sample: ...
    @overload
    def __getitem__(self, key: slice) -> list[Sample]: ...
    def __getitem__(self, key: int | slice) -> Sample | list[Sample]:
        """Return the sample at a position, or those of a slice."""
        if isinstance(key, slice):
            return [self[position] for position in range(*key.indices(len(self)))]
        index = self._indices[key]
        if (sample := self._read.get(index)) is None:
            row = self._rows[index]
            sample = self._read[index] = Sample(self._task, index, row, content_hash(row))
        return sample


class BoundYamlTask:
    """A `BoundTask` described by its YAML file."""

    def __init__(self, task: Task, options: BindOptions) -> None:
        self.task = task
        self.options = options
        self._rows = _readable_rows(task, options)
        rows = self._rows.evaluated
        self.skipped, self.n_original = rows.skipped, len(rows)
        self.metrics: tuple[MetricSpec, ...] = task.metrics
        self.n_shots = n_shots_of(task, options)
        if self.n_shots and task.prompt.image is not None:
            raise PlanError(f"task {task.name} has images and takes no shots; omit --num_fewshot {self.n_shots}")
        columns = frozenset(rows.features)
        self._layout = layout_of(task, columns, shot=False)
        multiple_input = self._layout.choices is not None and isinstance(self._layout.text(rows[0]), int)
        multiple_targets = isinstance(self._layout.target(rows[0]), list)
        chat = ChatOptions(
            options.apply_chat_template or task.prompt.is_chat, options.fewshot_as_multiturn, options.system_instruction
        )
        shot = layout_of(task, columns, shot=True)
        description = styled_description(resolve_loose(loader_of(task)(task.description)), task.prompt_style)

        def prompter_of(layout: PromptFields) -> Prompter:
            return Prompter(layout, shot, description, chat, multiple_input=multiple_input)

        self._prompter = prompter_of(self._layout)
        self.not_circular = why_not_circular(task, self._layout, rows[0]) if options.circular else None
        self._rotated: RotatedPrompts | None = None
        if options.circular and self.not_circular is None:
            self._rotated = RotatedPrompts(self._layout, prompter_of)
            self.metrics = (*task.metrics, *circular_metrics(task))
        self._critique = None if task.prompt.critique is None else SelfCritique(task.prompt.critique)
        self._settings: AnswerSettings | None = None
        if task.output_type == "generate_until":
            self._settings = answer_settings(task, options.gen_kwargs, options.preset, is_chat=chat.apply_template)
        self._scorer = SampleScorer(
            task,
            self._layout,
            multiple_input=multiple_input,
            multiple_targets=multiple_targets,
            tool_use=tool_use_of(task.prompt, task.metrics, loader_of(task), columns),
        )
        self.indices = chosen_indices(self.n_original, self._rules, options, task.name)

    @cached_property
    def _rules(self) -> DrawRules:
        task, profile = self.task, self.options.profile
        return DrawRules(
            n_shots=self.n_shots,
            seed=profile.seed if self.options.seed is None else self.options.seed,
            scheme=profile.draw,
            sampler="first_n" if task.fewshot.sampler == "first_n" else "default",
            exclude=(
                task.splits.training is None and task.fewshot.samples is None
                if profile.draw == "shuffled"
                else task.fewshot.split == task.splits.test  # true as well where both are absent
            ),
            forbid_leaks=profile.leaks == "forbid",
        )

    @cached_property
    def sandbox(self) -> Sandbox | None:
        """The sandbox in which generated programs are run; None for a task whose scoring runs none.

        Raises: PlanError where there is no sandbox and the run does not allow running without one.
        """
        return sandbox_of(self.task, unsafe=self.options.confirm_unsafe_code)

    @property
    def plan(self) -> TaskPlan:
        """The part of the run's plan, and so of the run key, for this task."""
        drawn = drawn_indices(self.n_original, self.options)
        return TaskPlan(
            name=self.task.name,
            version=self.task.version,
            spec_hash=self.task.spec_hash,
            dataset_hash=self._dataset_hash,
            num_fewshot=self.n_shots,
            n_samples=len(self.indices),
            sample_indices=self.options.sample_indices if drawn is None else drawn,
            drawn=None if drawn is None else {"of": self.n_original, "by": "HELM"},
            generation=self._settings.facts if self._settings else None,
        )

    @cached_property
    def _dataset_hash(self) -> str:
        own = self._rows.dataset.content_hash
        return own if self._layout.images is None else hash_of_rows(own, self._rows.evaluated)

    @property
    def dataset_revision(self) -> str | None:
        """The commit or branch of the data set on the Hub; None for rows from elsewhere."""
        return self._rows.dataset.revision

    @property
    def is_conversation(self) -> bool:
        """Whether further turns may follow an answer; see `next`."""
        return self.task.prompt.turns is not None or self._critique is not None

    @cached_property
    def _samples(self) -> Sequence[Sample]:
        return _RowSamples(self.task.name, self._rows.evaluated, self.indices)

    @cached_property
    def _position(self) -> dict[int, int]:
        return {index: position for position, index in enumerate(self.indices)}

    @cached_property
    def _pool(self) -> Sequence[Row]:
        return self._rows.pool() if self.n_shots else ()

    @cached_property
    def _shots(self) -> list[Shots]:
        if isinstance(self.task.fewshot.sampler, FunctionRef) and self.n_shots:
            pool = list(self._pool)
            sampler = load_function(self.task.fewshot.sampler, self.task.trusted)
            drawn = draw_with_class(sampler, self._samples, pool, self._rules)
            self.__dict__["_pool"] = pool
            return drawn
        if self.task.prompt_style == "helm-joint" and self.n_shots:
            labels = [self._label(row) for row in self._pool]
            return [draw_by_label(labels, self.n_shots, self.options.seed or 0)] * len(self._samples)
        return draw_shots(self._samples, self.n_original, self._pool, self._rules, self._prompter.question_words)

    def _label(self, row: Mapping[str, object]) -> str:
        """Return the text of a row's right option, by which HELM draws shots; empty where none is right."""
        layout = self._prompter.shot
        options = layout.listed_options(row) if layout.listed_options is not None else []
        return dict(zip(LETTERS, options, strict=False)).get(layout.target(row), "")

    @cached_property
    def _leaks(self) -> LeakGuard:
        """Counts the shots that leak; where a function makes the question's text, only rows identical to the sample.

        Such a function may draw at random, so it is called only when a prompt needs it.
        """
        prompt = self.task.fewshot.prompt
        is_computed = isinstance(prompt.text, FunctionRef) or isinstance(prompt.choice, FunctionRef)
        return LeakGuard(self._pool, None if is_computed else self._prompter.question_words)

    def samples(self) -> Sequence[Sample]:
        """Return the samples of the run, in the order in which their shots are drawn."""
        return self._samples

    def requests(self, render: Render | None = None) -> Iterator[Request]:
        """Yield one request per sample, in the order of `samples`; for a conversation, its first turn.

        `render` renders a conversation with the model's chat template, where the run or the task requires one. Without
        it such requests have messages and no text, for models that apply a template themselves.

        Raises: MalformedSample naming the sample, if a row lacks what the prompt needs.
        """
        for sample in self._samples:
            yield self.request(sample, render)

    def request(self, sample: Sample, render: Render | None = None) -> Request:
        """Return the request of one sample, equal to the one that `requests` yields."""
        shots = self._shots[self._position[sample.index]]
        try:
            return self._request(sample, shots, self.options.renderer(render))
        except MalformedSample as error:
            raise MalformedSample(
                f"task {self.task.name} ({self.task.source}), sample {sample.index}: {error}"
            ) from error

    def shots_of(self, sample: Sample) -> Shots:
        """Return the indices, in the pool of shots, of a sample's shots."""
        return self._shots[self._position[sample.index]]

    def shot(self, place: int) -> Sample:
        """Return the row at an index of the pool of shots as a sample with that index."""
        row = self._pool[place]
        return Sample(self.task.name, place, row, content_hash(row))

    def alone(self, sample: Sample, render: Render | None = None) -> Request:
        """Return the request of any row with the task's columns, without shots.

        Raises: MalformedSample if the row lacks what the prompt needs.
        """
        return self._request(sample, (), self.options.renderer(render))

    def _request(self, sample: Sample, shots: Shots, render: Render | None) -> Request:
        task, row = self.task, sample.row
        target = self._layout.target(row)
        images = self._layout.images(row) if self._layout.images is not None else None
        render = render if images is None else placing(render, images)
        segments: tuple[str, ...] = ()
        if task.output_type == "loglikelihood_rolling":
            queries: tuple[Query, ...] = (RollingQuery(0, _as_text(target)),)
            contexts = [Prompt(())]
        else:
            contexts = self._prompter.contexts(row, shots, self._pool, render)
            segments = contexts[0].segments if not self._prompter.multiple_input else ()
            queries = self._queries(row, target, contexts)
            if self._rotated is not None:
                more = self._rotated.queries(row, shots, self._pool, render)
                queries += tuple(
                    replace(query, index=index, continuation=f"{self._delimiter}{query.continuation}")
                    for index, query in enumerate(more, start=len(queries))
                )
        return Request(
            task=task.name,
            sample_index=sample.index,
            sample_sha256=sample.sha256,
            segments=segments,
            queries=queries,
            messages=contexts[0].messages if images is None else messages_with(contexts[0], images),
            tools=contexts[0].tools,
            target=reference_of(self._layout, target, 0),
            n_shots=len(shots),
            n_leaked_shots=self._leaks.count(sample, shots),
        )

    def next(
        self, request: Request, sample: Sample, outputs: Sequence[Output], render: Render | None = None
    ) -> Request | None:
        """Return the next turn of a conversation, given a request and the outputs that answer it; None at the end.

        Raises: MalformedSample for a row whose turns are no list of texts.
        """
        renderer = self.options.renderer(render)
        if self._critique is not None:
            return self._critique.next(request, sample.row, outputs, renderer)
        return next_turn(self._layout, request, sample.row, outputs, renderer)

    def _queries(self, row: Mapping[str, object], target: object, contexts: Sequence[Prompt]) -> tuple[Query, ...]:
        if self._settings is not None:
            also = self.task.also_loglikelihood
            return (GenerateQuery(0, self._settings.of(row)), *([LoglikelihoodQuery(1, also)] if also else []))
        if self.task.output_type == "loglikelihood":
            return (LoglikelihoodQuery(0, _as_text(target)),)
        if self._layout.choices is None:
            raise MalformedSample("output_type is multiple_choice, and there is no doc_to_choice")
        choices = self._layout.choices(row)
        if not choices:
            raise MalformedSample(f"doc_to_choice gives {choices!r}; expected at least one choice")
        delimiter = self._delimiter
        if self._prompter.multiple_input:
            queries = [
                LoglikelihoodQuery(i, f"{delimiter}{target}", context.segments) for i, context in enumerate(contexts)
            ]
        else:
            queries = [LoglikelihoodQuery(i, f"{delimiter}{choice}") for i, choice in enumerate(choices)]
        for context in self._contexts_without_question:
            start = len(queries)
            queries += [
                LoglikelihoodQuery(start + i, f"{delimiter}{choice}", (context,), "unconditional")
                for i, choice in enumerate(choices)
            ]
        return tuple(queries)

    @cached_property
    def _contexts_without_question(self) -> Sequence[str]:
        by_metric = {metric.name: context_without_question(metric.name) for metric in self.metrics}
        contexts = {context: name for name, context in by_metric.items() if context is not None}
        if len(contexts) > 1:
            raise PlanError(
                f"task {self.task.name}: {' and '.join(contexts.values())} compare the choices with different contexts;"
                " keep one of them in its metric_list"
            )
        return tuple(contexts)

    @cached_property
    def _delimiter(self) -> str:
        """The text between context and choice: nothing in a chat, unless the task begins the answer itself."""
        prompt = self.task.prompt
        if not self.options.apply_chat_template:
            return prompt.target_delimiter
        prefix = prompt.gen_prefix
        if isinstance(prefix, str) and prefix != "":
            return "" if prefix[-1].isspace() else prompt.target_delimiter
        return "" if self.options.preset is None else self.options.preset.answer_delimiter

    def gold_is_absent(self, sample: Sample) -> bool:
        """Return whether the sample's gold answer is none of its choices: a fault of the row, scored as wrong."""
        return self._scorer.gold_is_absent(sample)

    def score(self, request: Request, sample: Sample, outputs: Sequence[Output]) -> tuple[Score, ...]:
        """Return the sample's scores, one per filter and metric, from the outputs of all of the request's queries."""
        return score_in(self.sandbox, self._scorer, request, sample, outputs)


def layout_of(task: Task, columns: frozenset[str], *, shot: bool) -> PromptFields:
    """Return the layout of a row with these columns, as the evaluated sample or as a shot."""
    prompt, load = task.fewshot.prompt if shot else task.prompt, loader_of(task)
    has_choices = task.prompt.choice is not None
    choice = load(prompt.choice)
    turns = resolve_turns(load(prompt.turns), columns) if prompt.turns is not None else None
    tool_use = tool_use_of(task.prompt, task.metrics, load, columns)
    if tool_use is not None:
        layout = _layout_with_tools(task.prompt, tool_use, load, columns)  # it has no shots
        return layout if task.prompt.simulator is None else replace(layout, target=lambda row: gold_text(row, 0))
    if task.prompt.messages is not None:
        return _layout_of_chat(task.prompt, load, columns)  # nor has this one
    layout = PromptFields(
        text=resolve_text(load(prompt.text), columns, has_choices=has_choices) if turns is None else first_turn(turns),
        target=resolve_target(load(prompt.target), columns, has_choices=has_choices),
        choices=resolve_choices(choice, columns) if choice else None,
        gen_prefix=resolve_loose(prompt.gen_prefix) if shot else resolve_own(prompt.gen_prefix, columns),
        target_delimiter=prompt.target_delimiter,
        fewshot_delimiter=prompt.fewshot_delimiter,
        turns=turns,
    )
    if task.prompt_style is not None:
        layout = styled_layout(layout, task.prompt_style, shot=shot)
    if task.prompt.image is None or shot:
        return layout
    images = TaskImages(load(task.prompt.image), columns, layout.text)
    return replace(layout, text=images.text, images=images.of)


def _layout_with_tools(
    prompt: PromptSpec, use: ToolUse, load: Callable[[object], object], columns: frozenset[str]
) -> PromptFields:
    """Return the layout of a task with tools, whose target is a right answer as text."""
    messages = (
        None if prompt.messages is None else resolve_messages(load(prompt.messages), columns, ends_with_answer=False)
    )
    if messages is None:
        text = resolve_text(load(prompt.text), columns, has_choices=False)
    else:
        own = messages
        text = lambda row: own(row)[-1][1]  # noqa: E731
    return PromptFields(
        text=text,
        target=use.answer,
        choices=None,
        gen_prefix=resolve_loose(None),
        target_delimiter=prompt.target_delimiter,
        fewshot_delimiter=prompt.fewshot_delimiter,
        messages=messages,
        tools=None if use.in_prompt else lambda row: tools_for_template(use.tools(row)),
        tools_prompt=(lambda row: tools_prompt(use.tools(row))) if use.in_prompt else None,
    )


def _layout_of_chat(prompt: PromptSpec, load: Callable[[object], object], columns: frozenset[str]) -> PromptFields:
    """Return the layout of a task whose rows are chats: the model answers the user's last message.

    Images are where its messages have places for them.
    """
    messages = resolve_messages(load(prompt.messages), columns, ends_with_answer=True)
    resolve = resolve_one_target if prompt.target_is_text else partial(resolve_target, has_choices=False)
    images = None if prompt.image is None else TaskImages(load(prompt.image), columns, lambda _: "")
    return PromptFields(
        text=lambda row: messages(row)[-1][1],
        target=resolve(load(prompt.target), columns),
        images=None if images is None else images.of,
        choices=None,
        gen_prefix=resolve_loose(None),
        target_delimiter=prompt.target_delimiter,
        fewshot_delimiter=prompt.fewshot_delimiter,
        messages=messages,
    )


def _as_text(value: object) -> str:
    if not isinstance(value, str):
        raise MalformedSample(f"the target is {value!r:.80}, of type {type(value).__name__}; expected a text")
    return value


def _readable_rows(task: Task, options: BindOptions) -> TaskRows:
    """Return a task's rows without those that are skipped. Raises: DataError if none is left."""
    skips = options.skip_bad_rows or task.dataset.skip_bad_rows
    rows = TaskRows(task, options.data_dir, options.metadata, skip_bad_rows=skips)
    if skips:
        layout = layout_of(task, frozenset(rows.evaluated.features), shot=False)
        rows.leave_out(fault_finder(task, layout, rows.evaluated))
    if not rows.evaluated:
        skipped = rows.evaluated.skipped
        why = f" that can be read; {skipped}" if skipped.n else ""
        raise DataError(f"task {task.name}: split '{task.splits.evaluated}' of {task.dataset.title} has no rows{why}")
    return rows
