"""A mistyped option of a Python caller is an error with the right name or type, and never ignored."""

from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.errors import AssaymarkError, PlanError, UnknownName, UsageError
from assaymark.models.fake import FakeModel
from assaymark.store import Store


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limt": 5}, "unknown option of evaluate 'limt'; nearest: limit"),
        ({"store": 5}, "store is 5, of type int; expected a file, a database's URL, or an open store"),
        ({"limit": "5"}, "limit is '5', of type str; expected a number"),
        ({"limit": True}, "limit is True, of type bool; expected a number"),
        ({"num_fewshot": 2.5}, "num_fewshot is 2.5, of type float; expected a whole number"),
        ({"include_path": "tasks"}, "include_path is 'tasks', of type str; expected a list of folders"),
        ({"gen_kwargs": "a=1"}, "gen_kwargs is 'a=1', of type str; expected a mapping"),
        ({"samples": [1, 2]}, "samples is .*expected a mapping of task names to lists of positions"),
    ],
)
def test_options_are_validated(options: dict[str, Any], message: str) -> None:
    """The error for an unknown option has the nearest; that for a value of a wrong type has what was expected."""
    with pytest.raises((UnknownName, UsageError), match=message):
        assaymark.evaluate(FakeModel(), "arc_easy", **options)


@pytest.mark.parametrize("tasks", [5, None, {"arc_easy"}, ["arc_easy", 3]])
def test_tasks_are_names(tasks: Any) -> None:
    """Any other value is one clear error."""
    with pytest.raises(UsageError, match="expected names, or a list of them"):
        assaymark.evaluate(FakeModel(), tasks)


@pytest.mark.parametrize("model", [None, 5, object(), ("only one",)])
def test_a_model_is_a_model(model: Any, tmp_path: Path) -> None:
    """The error for any other object has what is accepted."""
    path = tmp_path / "t.csv"
    path.write_text("question,A,B,answer\nIs ice cold?,yes,no,A\n")
    with pytest.raises(AssaymarkError, match="expected a path, a hub id"):
        assaymark.evaluate(model, str(path))


@pytest.mark.parametrize(
    ("tasks", "gen_kwargs", "said"),
    [
        ("demo_yesno", {"temperature": 0.7}, ["temperature have no effect: no task of this run generates an answer"]),
        ("demo_sums", {"temperature": 0.7}, ["temperature have no effect in demo_sums, where decoding is greedy"]),
        ("demo_sums", {"temperature": 0.7, "do_sample": True}, []),
        ("demo_sums", {"max_gen_toks": 4}, []),
        ("demo_yesno", {}, []),
        ("demo_sums", {"until": r"\n\n"}, [r"""for a line break write --gen_kwargs 'until=["\n\n"]'"""]),
        ("demo_sums", {"until": ["\n\n", r"\nabla"]}, []),
    ],
)
def test_generation_settings_without_effect_are_reported(
    tasks: str, gen_kwargs: dict[str, Any], said: list[str]
) -> None:
    """If no task generates, or all decode greedily, sampling settings are reported to have no effect."""
    heard: list[str] = []
    assaymark.evaluate(FakeModel(), tasks, limit=1, gen_kwargs=gen_kwargs, notify=heard.append)
    results = [line for line in heard if line.startswith("gen_kwargs")]
    assert len(results) == len(said)
    assert all(part in line for part, line in zip(said, results, strict=True))


def test_a_store_is_a_file_a_url_or_an_open_store(tmp_path: Path) -> None:
    """All of them are accepted, and lead to the same run."""
    file = tmp_path / "s.sqlite"
    with Store.open(str(file)) as opened:
        runs = [
            assaymark.evaluate("fake", "demo_letters", limit=1, store=store)
            for store in (opened, file, str(file), f"sqlite:///{file}")
        ]
    assert len({run.id for run in runs}) == 1
    with pytest.raises(UsageError, match="store is 3, of type int; expected a file, a database's URL"):
        assaymark.evaluate("fake", "demo_letters", store=3)  # type: ignore[arg-type]


def test_generation_settings_are_validated_if_no_task_generates() -> None:
    """A value that no task could use is refused, whatever the tasks."""
    with pytest.raises(
        PlanError, match=r"generation settings of gen_kwargs: top_p is 2; expected more than 0, at most 1"
    ):
        assaymark.evaluate(FakeModel(), "demo_yesno", limit=1, gen_kwargs={"top_p": 2})
