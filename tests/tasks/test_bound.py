"""Bound tasks: from rows and options to requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from assaymark.errors import AssaymarkError, DataError, MalformedSample, PlanError
from assaymark.records import GenerateQuery, LoglikelihoodQuery, Message, Request, RollingQuery
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.profiles import PROFILES
from tests.tasks.folders import ROWS, SHOTS, bound, write_rows


def template(messages: Any, continue_final: bool, /, tools: str | None = None) -> str:
    """Return messages under a small chat template."""
    text = "".join(f"<{message.role}>{message.text}</{message.role}>" for message in messages)
    return text.removesuffix("</assistant>") if continue_final else text + "<assistant>"


def test_zero_shot_multiple_choice(tmp_path: Path) -> None:
    """There is one query per choice, with the delimiter before each and a common context."""
    task = bound(tmp_path)
    request = next(task.requests())
    assert request.prompt == "What is 1 plus 1?\nAnswer:"
    assert request.queries == (LoglikelihoodQuery(0, " 2"), LoglikelihoodQuery(1, " 3"))
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
    ids: dict[str, int] = {}
    for request in requests:
        for segment in request.segments[:-1]:
            assert ids.setdefault(segment, id(segment)) == id(segment)


def test_a_request_alone_is_the_same(tmp_path: Path) -> None:
    """One sample's request does not depend on whether the others were made, nor on a limit."""
    whole = list(bound(tmp_path, BindOptions(num_fewshot=2)).requests())
    alone = bound(tmp_path, BindOptions(num_fewshot=2))
    assert alone.request(alone.samples()[5]) == whole[5]
    assert list(bound(tmp_path, BindOptions(num_fewshot=2, limit=3)).requests()) == whole[:3]


def test_numbers_of_shots(tmp_path: Path) -> None:
    """The run's option wins over the task's number, but a task that sets 0 keeps it."""
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
    """Samples given by position are in document order with their own indices; an absent one is refused."""
    task = bound(tmp_path, BindOptions(sample_indices=(5, 2, 5)))
    assert [request.sample_index for request in task.requests()] == [2, 5]
    with pytest.raises(PlanError, match="samples 0 to 7; sample 8 was requested"):
        bound(tmp_path, BindOptions(sample_indices=(8,)))
    with pytest.raises(PlanError, match="exclude each other"):
        bound(tmp_path, BindOptions(sample_indices=(1,), limit=2))
    with pytest.raises(PlanError, match="limit is 0"):
        bound(tmp_path, BindOptions(limit=0))


def test_leaks_are_counted_or_forbidden(tmp_path: Path) -> None:
    """Where shots are drawn from the evaluated rows, lm-eval's profile counts leaks and ours has none."""
    options = BindOptions(num_fewshot=4)
    leaky = list(bound(tmp_path, options, training_split=...).requests())
    assert sum(request.n_leaked_shots for request in leaky) > 0
    own = BindOptions(num_fewshot=4, profile=PROFILES["assaymark"])
    clean = list(bound(tmp_path, own, training_split=...).requests())
    assert sum(request.n_leaked_shots for request in clean) == 0
    assert all(request.segments[-1][:-1] not in "".join(request.segments[:-1]) for request in clean)
    excluded = list(bound(tmp_path, options, training_split=..., fewshot_split="test").requests())
    assert sum(request.n_leaked_shots for request in excluded) == 0


NEAR = [
    {**ROWS[0], "id": 7},  # another column
    {**ROWS[0], "question": "  what is 1 PLUS 1"},  # case, white space, punctuation
    {**ROWS[0], "choices": ["3", "2"], "answer": 1},  # the options the other way round
]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"doc_to_text": "{{question}}\nA. {{choices[0]}}\nB. {{choices[1]}}\nAnswer:", "doc_to_choice": ["A", "B"]},
        {
            "doc_to_text": "{{answer}}",
            "doc_to_choice": "{{[question ~ ' ' ~ choices[0], question ~ ' ' ~ choices[1]]}}",
            "doc_to_target": "!function ends.text",
        },
    ],
)
def test_near_duplicates_are_no_shots_of_each_other(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Under our profile no shot has the sample's question, however it is written or its options ordered."""
    (tmp_path / "ends.py").write_text("def text(row): return row['text']\n")
    near = [{"id": 0, **row} for row in NEAR]
    write_rows(tmp_path, [{"id": 0, **row} for row in ROWS], near + [{"id": 0, **row} for row in SHOTS])
    leaky, clean = (
        list(bound(tmp_path, BindOptions(num_fewshot=10, profile=profile), **changes).requests())
        for profile in (PROFILES["lm-eval-0.4.13"], PROFILES["assaymark"])
    )

    def shown(request: Request) -> str:
        query = request.queries[0]
        own = query.segments if isinstance(query, LoglikelihoodQuery) else None
        return "".join((own or request.segments)[:-1]).lower()

    assert "what is 1 plus 1" in shown(leaky[0])
    assert "what is 1 plus 1" not in shown(clean[0])
    assert clean[0].n_shots == 10
    assert 1 <= leaky[0].n_leaked_shots <= len(NEAR)  # counted, though no row is the sample's own
    assert not any(request.n_leaked_shots for request in (*leaky[1:], *clean))
    assert any("what is 1 plus 1" in shown(request) for request in clean[1:])  # it is not a leak for others


def test_shots_come_from_the_named_split(tmp_path: Path) -> None:
    """Under each profile, shots are rows of the split that the task names, not of the evaluated one."""
    write_rows(tmp_path)
    (tmp_path / "rows" / "dev.jsonl").write_text("".join(json.dumps({**row, "text": "dev"}) + "\n" for row in SHOTS))
    files = {split: f"rows/{split}.jsonl" for split in ("test", "train", "dev")}
    changes = {"dataset_kwargs": {"data_files": files}, "fewshot_split": "dev", "doc_to_text": "{{text}}: {{question}}"}
    for name in ("lm-eval-0.4.13", "open-llm-v2", "assaymark"):
        task = bound(tmp_path, BindOptions(num_fewshot=4, profile=PROFILES[name]), **changes)
        for request in task.requests():
            assert [shot.partition(":")[0] for shot in request.segments[:-1]] == ["dev"] * 4


def test_profiles_shuffle_and_seed(tmp_path: Path) -> None:
    """The 2023 profile has its own order of samples; another seed draws other shots."""
    old = bound(tmp_path, BindOptions(num_fewshot=2, limit=3, profile=PROFILES["open-llm-v1"]))
    assert [sample.index for sample in old.samples()] != [0, 1, 2]
    default = [request.prompt for request in bound(tmp_path, BindOptions(num_fewshot=2)).requests()]
    assert [request.prompt for request in bound(tmp_path, BindOptions(num_fewshot=2, seed=1234)).requests()] == default
    assert [request.prompt for request in bound(tmp_path, BindOptions(num_fewshot=2, seed=1)).requests()] != default


def test_literal_shots_and_first_n(tmp_path: Path) -> None:
    """With first_n, shots in the task file are used from its beginning."""
    config = {"sampler": "first_n", "samples": [SHOTS[3], SHOTS[1], SHOTS[2]]}
    request = next(bound(tmp_path, BindOptions(num_fewshot=2), fewshot_config=config).requests())
    assert request.prompt.startswith("What is 23 minus 1?\nAnswer: 22\n\nWhat is 21 minus 1?\nAnswer: 20\n\n")


def test_choices_may_be_contexts(tmp_path: Path) -> None:
    """Where the text is an index, each choice has a context of its own and the continuation is shared."""
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
    first, second = request.queries
    assert isinstance(first, LoglikelihoodQuery)
    assert isinstance(second, LoglikelihoodQuery)
    assert first.continuation == second.continuation == " 2"
    assert first.segments is not None
    assert second.segments is not None
    assert first.segments[0] is second.segments[0]
    assert (first.segments[-1], second.segments[-1]) == ("2:", "3:")
    assert request.prompt == "".join(first.segments)


def test_other_output_types(tmp_path: Path) -> None:
    """Log-likelihood, rolling and generation have one query each."""
    plain: dict[str, Any] = {"doc_to_choice": ..., "metric_list": ..., "doc_to_target": "text"}
    request = next(bound(tmp_path, output_type="loglikelihood", **plain).requests())
    assert request.queries == (LoglikelihoodQuery(0, "2"),)
    rolling = next(bound(tmp_path, output_type="loglikelihood_rolling", **plain).requests())
    assert rolling.queries == (RollingQuery(0, "2"),)
    assert (rolling.prompt, rolling.segments) == ("2", ())
    task = bound(tmp_path, BindOptions(gen_kwargs={"temperature": 0.5}), output_type="generate_until", **plain)
    (query,) = next(task.requests()).queries
    assert isinstance(query, GenerateQuery)
    assert (query.settings.stop, query.settings.max_tokens) == (("\n\n",), 256)
    assert task.plan.generation is not None


def test_mutual_information_has_unconditional_queries(tmp_path: Path) -> None:
    """acc_mutual_info adds each choice after an empty context."""
    request = next(bound(tmp_path, metric_list=[{"metric": "acc_mutual_info"}]).requests())
    assert request.queries[2:] == (
        LoglikelihoodQuery(2, " 2", ("",), "unconditional"),
        LoglikelihoodQuery(3, " 3", ("",), "unconditional"),
    )


def test_chats(tmp_path: Path) -> None:
    """With a template the description is the system message, no delimiter precedes a choice, messages are included."""
    options = BindOptions(
        num_fewshot=1, apply_chat_template=True, fewshot_as_multiturn=True, system_instruction="Be brief."
    )
    task = bound(tmp_path, options, description="Sums.")
    request = next(task.requests(template))
    assert request.prompt.startswith("<system>Be brief.\n\nSums.</system><user>What is")
    assert request.prompt.endswith("</assistant><user>What is 1 plus 1?\nAnswer:</user><assistant>")
    assert [message.role for message in request.messages] == ["system", "user", "assistant", "user"]
    assert request.queries[0] == LoglikelihoodQuery(0, "2")
    bind_options = BindOptions(num_fewshot=1, apply_chat_template=True)
    collapsed = next(bound(tmp_path, bind_options).requests(template))
    assert [message.role for message in collapsed.messages] == ["user"]
    bare = next(bound(tmp_path, bind_options).requests())
    assert (bare.segments, bare.messages) == ((), collapsed.messages)


def test_a_begun_answer_is_continued(tmp_path: Path) -> None:
    """With gen_prefix the assistant's message is left open, and a delimiter precedes the choice."""
    options = BindOptions(apply_chat_template=True, fewshot_as_multiturn=True)
    request = next(bound(tmp_path, options, gen_prefix="It is").requests(template))
    assert request.prompt.endswith("</user><assistant>It is")
    assert request.messages[-1] == Message("assistant", request.messages[-1].parts)
    assert request.queries[0] == LoglikelihoodQuery(0, " 2")


def test_equal_beginnings_of_chats_are_one_object(tmp_path: Path) -> None:
    """Chats whose shots are the same share the rendered beginning."""
    options = BindOptions(num_fewshot=2, apply_chat_template=True)
    task = bound(tmp_path, options, fewshot_config={"sampler": "first_n"})
    first, second = list(task.requests(template))[:2]
    assert first.segments[0] is second.segments[0]
    assert "".join(first.segments) == first.prompt


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"use_prompt": "promptsource:x"}, "promptsource, which is not supported"),
        ({"doc_to_audio": "sound"}, "contain audio, which no model here takes; prompts are text and images"),
        ({"unsafe_code": True}, "runs generated code.*--confirm_run_unsafe_code"),
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
def test_unsupported_tasks_are_refused_with_the_reason(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """A task that cannot run is refused with the reason."""
    with pytest.raises(PlanError, match=message):
        bound(tmp_path, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"filter_list": [{"name": "f", "filter": [{"function": "regexx"}]}]},
            "unknown filter 'regexx'; nearest: regex",
        ),
        ({"filter_list": [{"name": "f", "filter": [{"function": "regex", "patern": "x"}]}]}, "argument 'patern'"),
        ({"metric_list": [{"metric": "exact_match", "ignore_case": "true"}]}, "ignore_case of exact_match is 'true'"),
    ],
)
def test_misspelt_settings_are_refused_before_any_request(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """Filters and options are checked when the task is bound: answers that cannot be scored are not paid for."""
    with pytest.raises(AssaymarkError, match=message):
        bound(tmp_path, output_type="generate_until", **{"metric_list": [{"metric": "exact_match"}], **changes})


def test_code_of_the_model_runs_when_confirmed(tmp_path: Path) -> None:
    """A task whose functions run generated code is bound once the user has confirmed it."""
    assert bound(tmp_path, BindOptions(confirm_unsafe_code=True), unsafe_code=True).n_original == 8


def test_incomplete_rows_are_errors_that_name_task_and_sample(tmp_path: Path) -> None:
    """A row that lacks a column of the prompt is an error that names its index."""
    rows = [dict(row) for row in ROWS]
    rows[3]["question"] = None
    write_rows(tmp_path, rows)
    with pytest.raises(MalformedSample, match=r"task sums \(.*sums\.yaml\), sample 3: the question is None"):
        list(bound(tmp_path, doc_to_text="question").requests())
    with pytest.raises(MalformedSample, match=r"task sums \(.*sums\.yaml\), sample 0: .*'absent' is undefined"):
        bound(tmp_path, doc_to_text="{{absent}}")
    write_rows(tmp_path, [])
    with pytest.raises(DataError, match="split 'test' of json has no rows"):
        bound(tmp_path)


def test_the_plan_changes_with_what_decides_answers(tmp_path: Path) -> None:
    """Rows, spec and shots are in the plan; the folder's path is not."""
    plan = bound(tmp_path / "a").plan
    assert bound(tmp_path / "b").plan == plan
    assert bound(tmp_path / "a", BindOptions(num_fewshot=1)).plan != plan
    assert bound(tmp_path / "a", description="x").plan.spec_hash != plan.spec_hash
    write_rows(tmp_path / "b", ROWS[:-1])
    assert bound(tmp_path / "b").plan.dataset_hash != plan.dataset_hash
