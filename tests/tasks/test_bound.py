"""Bound tasks: from rows and options to requests, and from outputs to scores."""

from pathlib import Path
from typing import Any

import pytest

from evalstone.errors import DataError, MalformedSample, MissingExtra, PlanError, UsageError
from evalstone.records import GenerateAsk, LoglikelihoodAsk, Message, Output, Request, RollingAsk, ScoreStatus
from evalstone.tasks.bound import BindOptions, BoundTask, bind
from evalstone.tasks.catalog import Catalog
from evalstone.tasks.profiles import PROFILES
from tests.tasks.folders import ROWS, SHOTS, task_spec, write_rows, write_task


def bound(folder: Path, options: BindOptions | None = None, **changes: Any) -> BoundTask:
    """Return the small task with some keys changed, bound."""
    path = write_task(folder, task_spec(**changes))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    return bind(task, options or BindOptions())


def template(messages: Any, continue_final: bool) -> str:
    """Return messages under a small chat template."""
    text = "".join(f"<{message.role}>{message.text}</{message.role}>" for message in messages)
    return text.removesuffix("</assistant>") if continue_final else text + "<assistant>"


def answered(request: Request, nats: list[float], greedy: tuple[bool, ...] = ()) -> list[Output]:
    """Return outputs to a request's asks."""
    flags = greedy or (False,) * len(nats)
    return [Output(request.id, i, total_nats=n, is_greedy=g) for i, (n, g) in enumerate(zip(nats, flags, strict=True))]


def test_zero_shot_multiple_choice(tmp_path: Path) -> None:
    """One ask per choice, the delimiter before each, the context in common."""
    task = bound(tmp_path)
    request = next(task.requests())
    assert request.prompt == "What is 1 plus 1?\nAnswer:"
    assert request.asks == (LoglikelihoodAsk(0, " 2"), LoglikelihoodAsk(1, " 3"))
    assert (request.id, request.target, request.n_shots) == ("sums/0/0", "0", 0)
    assert (task.n_original, len(task.samples()), task.plan.n_samples) == (8, 8, 8)


def test_shots_are_joined_by_delimiters_and_shared(tmp_path: Path) -> None:
    """A prompt is description, shots and question; the text of a shot is one object in every prompt that has it."""
    task = bound(tmp_path, BindOptions(num_fewshot=3), description="Sums about {{question[:4]}}:\n\n")
    requests = list(task.requests())
    first = requests[0]
    assert first.segments[0] == "Sums about What:\n\n"
    assert first.segments[-1] == "What is 1 plus 1?\nAnswer:"
    assert all(shot.startswith(("What is 2", "What is 3")) for shot in first.segments[1:-1])
    assert all(shot.endswith("\n\n") for shot in first.segments[1:-1])
    assert first.n_shots == 3
    places: dict[str, int] = {}
    for request in requests:
        for segment in request.segments[:-1]:
            assert places.setdefault(segment, id(segment)) == id(segment)


def test_a_request_alone_is_the_same(tmp_path: Path) -> None:
    """One sample's request does not depend on whether the others were made, nor on a limit."""
    whole = list(bound(tmp_path, BindOptions(num_fewshot=2)).requests())
    alone = bound(tmp_path, BindOptions(num_fewshot=2))
    assert alone.request(alone.samples()[5]) == whole[5]
    assert list(bound(tmp_path, BindOptions(num_fewshot=2, limit=3)).requests()) == whole[:3]


def test_numbers_of_shots(tmp_path: Path) -> None:
    """The run's wish wins over the task's number, but a task that says 0 keeps it."""
    assert bound(tmp_path, num_fewshot=2).plan.num_fewshot == 2
    assert bound(tmp_path, BindOptions(num_fewshot=1), num_fewshot=2).plan.num_fewshot == 1
    assert bound(tmp_path, BindOptions(num_fewshot=5), num_fewshot=0).plan.num_fewshot == 0
    with pytest.raises(PlanError, match="num_fewshot is -1"):
        bound(tmp_path, BindOptions(num_fewshot=-1))
    with pytest.raises(PlanError, match="13 shots are to be drawn from 12 rows"):
        list(bound(tmp_path, BindOptions(num_fewshot=13)).requests())


@pytest.mark.parametrize(("limit", "n"), [(3, 3), (0.25, 2), (0.26, 3), (1, 1), (100, 8)])
def test_limits(tmp_path: Path, limit: float, n: int) -> None:
    """A limit below one is a fraction, rounded up."""
    assert bound(tmp_path, BindOptions(limit=limit)).plan.n_samples == n


def test_chosen_samples(tmp_path: Path) -> None:
    """Samples by position are asked in document order under their own numbers; an absent one is refused."""
    task = bound(tmp_path, BindOptions(sample_indices=(5, 2, 5)))
    assert [request.sample_index for request in task.requests()] == [2, 5]
    with pytest.raises(PlanError, match="samples 0 to 7; asked for 8"):
        bound(tmp_path, BindOptions(sample_indices=(8,)))
    with pytest.raises(PlanError, match="exclude each other"):
        bound(tmp_path, BindOptions(sample_indices=(1,), limit=2))
    with pytest.raises(PlanError, match="limit is 0"):
        bound(tmp_path, BindOptions(limit=0))


def test_leaks_are_counted_or_forbidden(tmp_path: Path) -> None:
    """Where shots come from the asked rows, lm-eval's profile counts leaks and ours has none."""
    options = BindOptions(num_fewshot=4)
    leaky = list(bound(tmp_path, options, training_split=...).requests())
    assert sum(request.n_leaked_shots for request in leaky) > 0
    own = BindOptions(num_fewshot=4, profile=PROFILES["evalstone"])
    clean = list(bound(tmp_path, own, training_split=...).requests())
    assert sum(request.n_leaked_shots for request in clean) == 0
    assert all(request.segments[-1][:-1] not in "".join(request.segments[:-1]) for request in clean)
    excluded = list(bound(tmp_path, options, training_split=..., fewshot_split="test").requests())
    assert sum(request.n_leaked_shots for request in excluded) == 0


def test_profiles_shuffle_and_seed(tmp_path: Path) -> None:
    """The 2023 profile takes samples in its own order; another seed draws other shots."""
    old = bound(tmp_path, BindOptions(num_fewshot=2, limit=3, profile=PROFILES["open-llm-v1"]))
    assert [sample.index for sample in old.samples()] != [0, 1, 2]
    default = [request.prompt for request in bound(tmp_path, BindOptions(num_fewshot=2)).requests()]
    assert [request.prompt for request in bound(tmp_path, BindOptions(num_fewshot=2, seed=1234)).requests()] == default
    assert [request.prompt for request in bound(tmp_path, BindOptions(num_fewshot=2, seed=1)).requests()] != default


def test_literal_shots_and_first_n(tmp_path: Path) -> None:
    """Shots written into the task file are taken from its beginning with first_n."""
    config = {"sampler": "first_n", "samples": [SHOTS[3], SHOTS[1], SHOTS[2]]}
    request = next(bound(tmp_path, BindOptions(num_fewshot=2), fewshot_config=config).requests())
    assert request.prompt.startswith("What is 23 minus 1?\nAnswer: 22\n\nWhat is 21 minus 1?\nAnswer: 20\n\n")


def test_contexts_may_be_the_choices(tmp_path: Path) -> None:
    """Where the text is an index, each choice is a context of its own and the continuation is shared."""
    (tmp_path / "who.py").write_text(
        "def gold(row): return row['answer']\ndef ends(row): return row['text']\n"
        "def starts(row): return [f'{c}:' for c in row['choices']]\n"
    )
    changes: dict[str, Any] = {
        "doc_to_text": "!function who.gold",
        "doc_to_target": "!function who.ends",
        "doc_to_choice": "!function who.starts",
    }
    request = next(bound(tmp_path, BindOptions(num_fewshot=1), **changes).requests())
    first, second = request.asks
    assert isinstance(first, LoglikelihoodAsk)
    assert isinstance(second, LoglikelihoodAsk)
    assert first.continuation == second.continuation == " 2"
    assert first.segments is not None
    assert second.segments is not None
    assert first.segments[0] is second.segments[0]
    assert (first.segments[-1], second.segments[-1]) == ("2:", "3:")
    assert request.prompt == "".join(first.segments)


def test_other_output_types(tmp_path: Path) -> None:
    """Log-likelihood, rolling and written answers ask one thing each."""
    plain: dict[str, Any] = {"doc_to_choice": ..., "metric_list": ..., "doc_to_target": "text"}
    one = next(bound(tmp_path, output_type="loglikelihood", **plain).requests())
    assert one.asks == (LoglikelihoodAsk(0, "2"),)
    rolling = next(bound(tmp_path, output_type="loglikelihood_rolling", **plain).requests())
    assert rolling.asks == (RollingAsk(0, "2"),)
    assert (rolling.prompt, rolling.segments) == ("2", ())
    task = bound(tmp_path, BindOptions(gen_kwargs={"temperature": 0.5}), output_type="generate_until", **plain)
    (ask,) = next(task.requests()).asks
    assert isinstance(ask, GenerateAsk)
    assert (ask.settings.stop, ask.settings.max_tokens) == (("\n\n",), 256)
    assert task.plan.generation is not None


def test_mutual_information_asks_unconditionally(tmp_path: Path) -> None:
    """acc_mutual_info adds each choice after an empty context."""
    request = next(bound(tmp_path, metric_list=[{"metric": "acc_mutual_info"}]).requests())
    assert request.asks[2:] == (
        LoglikelihoodAsk(2, " 2", ("",), "unconditional"),
        LoglikelihoodAsk(3, " 3", ("",), "unconditional"),
    )


def test_chats(tmp_path: Path) -> None:
    """With a template the description is the system message, no delimiter precedes a choice, messages come along."""
    options = BindOptions(
        num_fewshot=1, apply_chat_template=True, fewshot_as_multiturn=True, system_instruction="Be brief."
    )
    task = bound(tmp_path, options, description="Sums.")
    request = next(task.requests(template))
    assert request.prompt.startswith("<system>Be brief.\n\nSums.</system><user>What is")
    assert request.prompt.endswith("</assistant><user>What is 1 plus 1?\nAnswer:</user><assistant>")
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "user"]
    assert request.asks[0] == LoglikelihoodAsk(0, "2")
    one = BindOptions(num_fewshot=1, apply_chat_template=True)
    collapsed = next(bound(tmp_path, one).requests(template))
    assert [message.role for message in collapsed.messages] == ["user"]
    bare = next(bound(tmp_path, one).requests())
    assert (bare.segments, bare.messages) == ((), collapsed.messages)


def test_a_begun_answer_is_continued(tmp_path: Path) -> None:
    """With gen_prefix the assistant's message is left open and the choice is set off from it."""
    options = BindOptions(apply_chat_template=True, fewshot_as_multiturn=True)
    request = next(bound(tmp_path, options, gen_prefix="It is").requests(template))
    assert request.prompt.endswith("</user><assistant>It is")
    assert request.messages[-1] == Message("assistant", request.messages[-1].parts)
    assert request.asks[0] == LoglikelihoodAsk(0, " 2")


def test_equal_beginnings_of_chats_are_one_object(tmp_path: Path) -> None:
    """Chats whose shots are the same share the rendered beginning."""
    options = BindOptions(num_fewshot=2, apply_chat_template=True)
    task = bound(tmp_path, options, fewshot_config={"sampler": "first_n"})
    first, second = list(task.requests(template))[:2]
    assert first.segments[0] is second.segments[0]
    assert "".join(first.segments) == first.prompt


def test_scores_of_choices(tmp_path: Path) -> None:
    """The task's metrics come back with the calibration that every multiple-choice run reports."""
    task = bound(tmp_path)
    sample = task.samples()[0]
    request = task.request(sample)
    scores = {score.metric: score for score in task.score(request, sample, answered(request, [-1.0, -2.0]))}
    assert scores["acc"].value == scores["acc_norm"].value == 1.0
    assert {"brier", "confidence", "n_tied", "acc_ties"} <= set(scores)
    assert scores["acc"].request_id == "sums/0/0"
    wrong = {score.metric: score.value for score in task.score(request, sample, answered(request, [-2.0, -1.0]))}
    assert wrong["acc"] == 0.0


def test_failed_asks_are_failed_scores(tmp_path: Path) -> None:
    """An error or a missing answer gives failed scores with the reason, never a wrong answer."""
    task = bound(tmp_path)
    sample = task.samples()[0]
    request = task.request(sample)
    failed = [Output(request.id, 0, total_nats=-1.0, is_greedy=True), Output(request.id, 1, error="too long")]
    for outputs, reason in ((failed, "too long"), (failed[:1], "no answer came")):
        scores = task.score(request, sample, outputs)
        assert {score.metric for score in scores} == {"acc", "acc_norm"}
        assert all((s.value, s.status, s.detail) == (None, ScoreStatus.FAILED, reason) for s in scores)


def test_the_tasks_own_scoring(tmp_path: Path) -> None:
    """process_results gets the row and (nats, greedy) per ask; numbers become values, compounds parts."""
    (tmp_path / "own.py").write_text(
        "def score(doc, results):\n"
        "    return {'best': max(n for n, g in results), 'pair': (doc['text'], 1), 'whole': {'a': 1}, 'none': None}\n"
    )
    task = bound(tmp_path, process_results="!function own.score")
    sample = task.samples()[0]
    request = task.request(sample)
    scores = {score.metric: score for score in task.score(request, sample, answered(request, [-1.0, -2.0]))}
    assert scores["best"].value == -1.0
    assert (scores["pair"].value, scores["pair"].parts) == (None, ("2", 1))
    assert (scores["whole"].parts, scores["whole"].detail) == (({"a": 1},), {"wrapped": True})
    assert (scores["none"].value, scores["none"].parts) == (None, None)


def test_a_guess_in_scoring_does_not_depend_on_the_order(tmp_path: Path) -> None:
    """A scoring function that draws gives a sample the same value whenever it is scored; a fault in it is named."""
    (tmp_path / "own.py").write_text(
        "import random\ndef score(doc, results): return {'guess': random.random()}\n"
        "def faulty(doc, results): return doc['absent']\n"
    )
    task = bound(tmp_path, process_results="!function own.score")
    first, second = task.samples()[:2]

    def guess(sample: Any) -> float | None:
        request = task.request(sample)
        return task.score(request, sample, answered(request, [-1.0, -2.0]))[0].value

    values = [guess(first), guess(second), guess(first)]
    assert values[0] == values[2] != values[1]
    task = bound(tmp_path, process_results="!function own.faulty")
    with pytest.raises(MalformedSample, match=r"task sums, sample 0: its scoring function failed: KeyError: 'absent'"):
        guess(first)


def test_written_answers_go_through_filters(tmp_path: Path) -> None:
    """Each filter is scored by itself, several targets count as any, and nothing extracted is unparsed."""
    task = bound(
        tmp_path,
        output_type="generate_until",
        doc_to_choice=...,
        doc_to_target="{{[text, 'two']}}",
        repeats=2,
        metric_list=[{"metric": "exact_match", "ignore_case": True}],
        filter_list=[
            {
                "name": "number",
                "filter": [{"function": "regex", "regex_pattern": "([0-9]+)"}, {"function": "take_first"}],
            },
            {"name": "plain", "filter": [{"function": "take_first"}]},
        ],
    )
    sample = task.samples()[0]
    request = task.request(sample)

    def scored(text: str) -> dict[str, tuple[float | None, str]]:
        outputs = [Output(request.id, 0, repeat, text=text) for repeat in range(2)]
        return {score.filter: (score.value, score.status.value) for score in task.score(request, sample, outputs)}

    assert scored("It is 2") == {"number": (1.0, "scored"), "plain": (0.0, "scored")}
    assert scored("TWO") == {"number": (0.0, "unparsed"), "plain": (1.0, "scored")}


def test_code_runs_late_and_only_where_it_may(tmp_path: Path) -> None:
    """Selecting imports nothing; binding imports from the named folder, and refuses code from elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "code.py").write_text("def rows(d): return d\n")
    (elsewhere / "base_yaml").write_text("process_docs: !function code.rows\n")
    folder = tmp_path / "mine"
    (folder / "x").mkdir(parents=True)
    (folder / "boom.py").write_text("raise RuntimeError('imported')\n")
    path = write_task(folder, task_spec(process_docs="!function boom.rows"))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    with pytest.raises(DataError, match=r"boom\.py fails to import: RuntimeError: imported"):
        bind(task, BindOptions())
    path = write_task(folder, task_spec("other", include="../elsewhere/base_yaml"))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    with pytest.raises(UsageError, match=f"was not named.*--include_path {elsewhere}"):
        bind(task, BindOptions())
    write_task(elsewhere, task_spec("there"))
    (task,) = Catalog.open([tmp_path], lm_eval=False).select(["other"]).tasks
    assert bind(task, BindOptions()).n_original == len(ROWS)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (None, r"no file utils\.py beside the task file"),
        ("x = 1", r"utils\.py has no 'f'"),
        ("import surely_absent_module", r"imports 'surely_absent_module', which is not installed"),
        ("def f(rows): return 3", r"process_docs gave int; expected rows"),
        ("def f(rows): raise KeyError('k')", r"utils\.f of task sums failed on the rows.*KeyError"),
    ],
)
def test_faulty_functions_are_named(tmp_path: Path, code: str | None, message: str) -> None:
    """Whatever is wrong with a function that a task names, the error says which and why."""
    if code is not None:
        (tmp_path / "utils.py").write_text(code)
    with pytest.raises((DataError, PlanError), match=message):
        bound(tmp_path, process_docs="!function utils.f")


def test_edited_code_is_imported_anew(tmp_path: Path) -> None:
    """In one session a changed helper is used, as the changed hash says it is."""
    hashes, prompts = [], []
    for word in ("one", "two"):
        (tmp_path / "say.py").write_text(f"def text(row): return '{word}'\n")
        task = bound(tmp_path, doc_to_text="!function say.text")
        hashes.append(task.plan.spec_hash)
        prompts.append(next(task.requests()).prompt)
    assert prompts == ["one", "two"]
    assert hashes[0] != hashes[1]


def test_lm_evals_functions_need_lm_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dotted function of lm_eval names the extra where that is absent."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="lm-eval"):
        bound(tmp_path, process_docs="!function lm_eval.tasks.hellaswag.utils.process_docs")


def test_task_code_finds_the_published_seeds_and_leaves_no_trace(tmp_path: Path) -> None:
    """A shuffle in process_docs gives the same rows each time, and the global generator goes on as if nothing was."""
    import random

    (tmp_path / "mix.py").write_text(
        "import random\ndef mixed(rows):\n    return rows.select(random.sample(range(len(rows)), len(rows)))\n"
    )
    random.seed(7)
    expected = random.random()
    random.seed(7)
    first = [request.prompt for request in bound(tmp_path, process_docs="!function mix.mixed").requests()]
    assert random.random() == expected
    again = [request.prompt for request in bound(tmp_path, process_docs="!function mix.mixed").requests()]
    assert first == again
    assert first != [request.prompt for request in bound(tmp_path).requests()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"use_prompt": "promptsource:x"}, "promptsource, which is not supported"),
        ({"doc_to_image": ["image"]}, "images"),
        ({"doc_to_audio": "sound"}, "sound"),
        ({"unsafe_code": True}, "runs code that the model writes.*--confirm_run_unsafe_code"),
        ({"output_type": "generate_until", "metric_list": [{"metric": "exactmatch"}]}, "nearest: exact_match"),
        (
            {"metric_list": [{"metric": "accuracy"}]},
            r"metric 'accuracy' is not known for multiple_choice; nearest: acc",
        ),
        (
            {"output_type": "loglikelihood_rolling", "metric_list": [{"metric": "zz"}]},
            r"expected one of word_perplexity",
        ),
    ],
)
def test_what_is_not_supported_says_why(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """A task that cannot run is refused with the reason."""
    with pytest.raises(PlanError, match=message):
        bound(tmp_path, **changes)


def test_code_of_the_model_runs_when_confirmed(tmp_path: Path) -> None:
    """A task that runs what the model writes is bound once the user has said so."""
    assert bound(tmp_path, BindOptions(confirm_unsafe_code=True), unsafe_code=True).n_original == 8


def test_rows_that_lack_something_name_task_and_sample(tmp_path: Path) -> None:
    """A row without what the prompt needs is an error that names its number."""
    rows = [dict(row) for row in ROWS]
    rows[3]["question"] = None
    write_rows(tmp_path, rows)
    with pytest.raises(MalformedSample, match=r"task sums, sample 3: the question is None"):
        list(bound(tmp_path, doc_to_text="question").requests())
    with pytest.raises(MalformedSample, match=r"task sums \(.*sums\.yaml\), sample 0: .*'absent' is undefined"):
        bound(tmp_path, doc_to_text="{{absent}}")
    write_rows(tmp_path, [])
    with pytest.raises(DataError, match="split 'test' of json has no rows"):
        bound(tmp_path)


def test_the_plan_changes_with_what_decides(tmp_path: Path) -> None:
    """Rows, spec and shots are in the plan; where the folder lies is not."""
    plan = bound(tmp_path / "a").plan
    assert bound(tmp_path / "b").plan == plan
    assert bound(tmp_path / "a", BindOptions(num_fewshot=1)).plan != plan
    assert bound(tmp_path / "a", description="x").plan.spec_hash != plan.spec_hash
    write_rows(tmp_path / "b", ROWS[:-1])
    assert bound(tmp_path / "b").plan.dataset_hash != plan.dataset_hash


def test_a_samplers_class_draws(tmp_path: Path) -> None:
    """A sampler of the task's own draws rows of the pool or rows of its own."""
    (tmp_path / "draws.py").write_text(
        "class Last:\n"
        "    def __init__(self, rows, rnd=None): self.rows = rows\n"
        "    def set_rnd(self, seed): self.seed = seed\n"
        "    def sample(self, n, eval_doc=None):\n"
        "        return [self.rows[-1], dict(self.rows[0], question=f'seed {self.seed}')][:n]\n"
    )
    config = {"sampler": "!function draws.Last"}
    request = next(bound(tmp_path, BindOptions(num_fewshot=2), fewshot_config=config).requests())
    assert request.prompt.startswith("What is 31 minus 1?\nAnswer: 30\n\nseed 1234\nAnswer: 19\n\n")
