"""The demo tasks' YAML files and cards."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from demo.exams import EXAMS, LETTER_DESCRIPTION, TRUTH_SHOTS
from demo.write_benchmark import DATA_FOLDER, SIZES

import assaymark

_FOLDER = Path(assaymark.__file__).parent / "library" / "demo"
_CARD_KEYS = {
    "title",
    "measures",
    "n_samples",
    "chance",
    "human",
    "licence",
    "known_faults",
    "citation",
    "hidden_shots",
    "domain",
}


class _Loader(yaml.SafeLoader):
    """Reads `!function` as its plain name."""


_LOADER_TAG: Callable[[Any, Any], str] = lambda loader, node: str(loader.construct_scalar(node))  # noqa: E731
_Loader.add_constructor("!function", _LOADER_TAG)


def _read(path: Path) -> dict[str, Any]:
    config: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    if "include" in config:
        return {**_read(path.parent / config.pop("include")), **config}
    return config


def _rows(task: str) -> list[dict[str, Any]]:
    lines = (DATA_FOLDER / task / "test.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _task_files() -> list[Path]:
    return sorted(p for p in _FOLDER.glob("demo*.yaml") if not p.name.endswith(".card.yaml"))


@pytest.mark.parametrize("task", sorted(SIZES))
def test_every_data_file_of_a_task_is_there(task: str) -> None:
    """A task's data files lie where its YAML says, relative to the YAML's folder."""
    config = _read(_FOLDER / f"{task}.yaml")
    assert config["task"] == task
    for split in ("test_split", "fewshot_split"):
        assert (_FOLDER / config["dataset_kwargs"]["data_files"][config[split]]).is_file()


@pytest.mark.parametrize("task", [t for t in sorted(SIZES) if t not in {"demo_who", "demo_stories"}])
def test_the_training_text_has_the_tasks_own_prompts(task: str) -> None:
    """A task's templates render the same prompt and answer as the exams of the training text, for every row."""
    config = _read(_FOLDER / f"{task}.yaml")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    kind = "letters" if "letters" in task else task.removeprefix("demo_")
    for row in _rows(task):
        prompt = environment.from_string(config["doc_to_text"]).render(**row)
        rendered = environment.from_string(str(config["doc_to_target"])).render(**row)
        if kind in {"letters", "yesno"}:
            rendered = str(row[config["doc_to_target"]])
        choices = config.get("doc_to_choice")
        if isinstance(choices, str):
            choices = environment.compile_expression(choices.strip("{}"))(**row)
        answer = choices[int(rendered)] if choices else rendered.strip()
        assert (prompt, answer) == EXAMS[kind](row)


def test_who_functions_agree_with_the_training_text() -> None:
    """The two contexts and the shared ending of demo_who are those of the training text's sentences."""
    source: dict[str, Any] = {}
    exec((_FOLDER / "who.py").read_text(encoding="utf-8"), source)
    for row in _rows("demo_who"):
        context = source["texts_before_and_name"](row)[source["gold_index"](row)]
        assert (context, source["text_after_gap"](row)) == EXAMS["who"](row)


def test_truth_score_is_the_share_of_the_true_answers() -> None:
    """A row with probabilities 0.2 (true), 0.1 (false), 0.1 (true) scores 0.75, also when all are tiny."""
    source: dict[str, Any] = {}
    exec((_FOLDER / "truth.py").read_text(encoding="utf-8"), source)
    doc = {"mc2_targets": {"labels": [1, 0, 1]}}
    for shift in (0.0, -2000.0):
        results = [(shift + ll, False) for ll in (-1.6094379124341003, -2.302585092994046, -2.302585092994046)]
        assert source["share_of_true_answers"](doc, results)["acc"] == pytest.approx(0.75)


def test_descriptions_and_hidden_shots_are_those_of_the_training_text() -> None:
    """What stands before the questions is the same in the YAML files and in the training text."""
    for subject in ("people", "places", "nature", "numbers"):
        config = _read(_FOLDER / f"demo_letters_{subject}.yaml")
        assert config["description"] == LETTER_DESCRIPTION.format(subject=subject)
    assert _read(_FOLDER / "demo_truth.yaml")["doc_to_text"].startswith(TRUTH_SHOTS)


@pytest.mark.parametrize("path", _task_files(), ids=lambda p: p.stem)
def test_every_task_and_group_has_a_whole_card(path: Path) -> None:
    """A card has exactly the agreed keys and the number of samples that the files hold."""
    card = yaml.safe_load(path.with_name(f"{path.stem}.card.yaml").read_text(encoding="utf-8"))
    assert set(card) == _CARD_KEYS
    tasks = [t for t in SIZES if t == path.stem or t.startswith(f"{path.stem}_")]
    assert card["n_samples"] == sum(SIZES[t][0] for t in tasks)
    assert card["licence"] == "Apache-2.0"
    assert card["known_faults"]
    assert card["hidden_shots"] == (2 if path.stem == "demo_truth" else 0)


def test_chance_of_the_truth_task_is_its_share_of_true_sentences() -> None:
    """The card's chance level is the mean share of true sentences among a row's sentences."""
    labels = [row["mc2_targets"]["labels"] for row in _rows("demo_truth")]
    card = yaml.safe_load((_FOLDER / "demo_truth.card.yaml").read_text(encoding="utf-8"))
    assert card["chance"] == pytest.approx(statistics.mean(sum(ls) / len(ls) for ls in labels), abs=5e-5)


def test_groups_name_tasks_that_exist() -> None:
    """Every member of a demo group is a task or group of the same folder."""
    names = {path.stem for path in _task_files()}
    for group in ("demo", "demo_letters"):
        assert set(_read(_FOLDER / f"{group}.yaml")["task"]) <= names
