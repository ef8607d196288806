"""HELM's suites: prompts equal to HELM's own (goldens/helm.json, written by write_helm_prompts.py), and its scores."""

import importlib.util
import json
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest

import assaymark
from assaymark.errors import PlanError
from assaymark.models.fake import FakeModel
from assaymark.options.of_plans import positions
from assaymark.perturbations.named import Perturbation
from assaymark.records import GenerateQuery
from assaymark.scoring.instructions.helm_ifeval import share_followed
from assaymark.tasks.bound import BindOptions, drawn_indices
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.perturbed_tasks import with_perturbed
from assaymark.tasks.python_tasks import bind
from tests.conftest import ROOT
from tests.perturbations.write_helm_texts import DIALECT, NAMES

GOLDENS = json.loads((Path(__file__).parent / "goldens" / "helm.json").read_text())
DATA = {
    "helm_openbookqa": "allenai/openbookqa",
    "helm_gsm": "openai/gsm8k",
    "helm_mmlu_pro": "TIGER-Lab/MMLU-Pro",
    "helm_ifeval": "google/IFEval",
}
CANONICAL = (
    Perturbation("mild_mix"),
    Perturbation("dialect", 1.0, json.dumps(DIALECT)),
    Perturbation("gender", 1.0),
    Perturbation("person_name", 1.0, "\n".join(NAMES)),
)


@pytest.fixture(scope="module")
def rows() -> ModuleType:
    """The functions of the task files."""
    spec = importlib.util.spec_from_file_location(
        "helm_rows", ROOT / "src" / "assaymark" / "library" / "tasks" / "helm" / "rows.py"
    )
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("name", GOLDENS)
def test_prompts_equal_helms(name: str, shared_dir: Path) -> None:
    """The first forty prompts, shots included, equal those of HELM's adapters text for text, and the limits too."""
    data = shared_dir / "data"
    if not (data / DATA.get(name, "cais/mmlu")).exists():
        pytest.skip(f"no rows of {name}")
    (task,) = Catalog.open(lm_eval=False).select([name]).tasks
    bound = bind(task, BindOptions(data_dir=data, limit=40))
    requests = list(bound.requests())
    assert [sha256(request.prompt.encode()).hexdigest() for request in requests] == GOLDENS[name]["prompts"]
    (query,) = requests[0].queries
    assert isinstance(query, GenerateQuery)
    assert query.settings.max_tokens == GOLDENS[name]["max_tokens"]
    assert list(query.settings.stop) == GOLDENS[name]["stop"]


@pytest.mark.parametrize("name", GOLDENS)
def test_perturbed_prompts_equal_helms(name: str, shared_dir: Path) -> None:
    """Copies of the first forty questions equal HELM's: ids over all splits, options, and which of them there are."""
    data = shared_dir / "data"
    if not (data / DATA.get(name, "cais/mmlu")).exists():
        pytest.skip(f"no rows of {name}")
    selection = Catalog.open(lm_eval=False).select([name])
    bound = bind(selection.tasks[0], BindOptions(data_dir=data, limit=40))
    _, (_, *copies) = with_perturbed(selection, [bound], CANONICAL)
    made: dict[str, dict[str, str]] = {each.label: {} for each in CANONICAL}
    for task in copies:
        assert task.plan.perturbed is not None
        for request in task.requests():
            prompt = sha256(request.prompt.encode()).hexdigest()[:16]
            made[task.plan.perturbed["by"]][str(request.sample_index)] = prompt
    assert made == GOLDENS[name]["perturbed"]
    assert len(made["mild_mix"]) == 40


@pytest.mark.parametrize(
    ("answer", "score"),
    [(" B", 1.0), ("B\n", 1.0), ("b", 0.0), ("copper wire", 1.0), ("", 0.0), ("C", 0.0), ("A.", 0.0)],
)
def test_joint_answers_are_scored_as_helm_does(rows: ModuleType, answer: str, score: float) -> None:
    """A letter stands for its option; any other text counts where it is the right option's."""
    row = {"question_stem": "Q", "choices": {"text": ["wood", "copper wire", "air", "glass"]}, "answerKey": "B"}
    assert rows.matches(row, [answer]) == {"exact_match": score}


@pytest.mark.parametrize(
    ("answer", "score"),
    [
        ("The correct answer is (C)", 1.0),
        ("the correct answer is **C**.", 1.0),
        ("the correct answer is option C", 1.0),
        ("answer is B, no, the correct answer is C", 0.0),
        ("C", 0.0),
    ],
)
def test_reasoned_answers_are_read_by_helms_patterns(rows: ModuleType, answer: str, score: float) -> None:
    """The first of HELM's four patterns that matches decides."""
    row = {"question": "Q", "options": ["w", "x", "y"], "answer": "C"}
    assert rows.names_letter(row, [answer]) == {"exact_match": score}


@pytest.mark.parametrize(
    ("answer", "score"), [("The answer is 1,200 eggs.", 1.0), ("12 and 1200", 1.0), ("1201", 0.0), ("none", 0.0)]
)
def test_the_final_number_counts(rows: ModuleType, answer: str, score: float) -> None:
    """Thousands' commas are ignored, and what stands before the last number."""
    assert rows.final_number({"answer": "so\n#### 1200"}, [answer]) == {"exact_match": score}


def test_of_a_prompt_the_share_of_instructions_counts() -> None:
    """One of two instructions that is followed is half, where lm-eval's strict accuracy of the prompt is 0."""
    row = {
        "key": 1,
        "prompt": "P",
        "instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"],
        "kwargs": [{}, {}],
    }
    assert share_followed(row, ["No Comma here"]) == {"strict_share": 0.5}


def test_missing_members_are_named_with_their_reason() -> None:
    """The suites say which columns cannot be evaluated here and why, and run the others with --partial."""
    with pytest.raises(PlanError, match=r"helm_wildbench: .*judges of HELM's"):
        Catalog.open(lm_eval=False).select(["helm-capabilities"])
    selection = Catalog.open(lm_eval=False).select(["helm-lite"], partial=True)
    assert {task.name for task in selection.tasks} == {
        name for name in GOLDENS if name not in {"helm_mmlu_pro", "helm_ifeval"}
    }
    (chosen,) = selection.suites
    assert len(chosen.missing) == 7
    assert all("rows are not in this library" in why for _, why in chosen.missing)


@pytest.mark.parametrize(
    ("n_rows", "first", "digest"),
    [
        (1319, (0, 1, 2, 3, 4, 5), "06262019c6fbe3c39b7b9bf7dd48dccba001403cecd7f3a63d6f745587af99d3"),
        (12032, (16, 18, 39, 42, 48, 90), "58d6b2eb524e80397a1d584625ae46b71d8c0c3dde5d6397c844a50356e9169c"),
    ],
)
def test_the_draw_is_helms(n_rows: int, first: tuple[int, ...], digest: str) -> None:
    """Of GSM8K's and MMLU-Pro's rows those are drawn that `downsample_eval_instances` of HELM draws."""
    drawn = drawn_indices(n_rows, BindOptions(at_most=1000))
    assert drawn is not None
    assert drawn[:6] == first
    assert sha256(json.dumps(drawn).encode()).hexdigest() == digest
    assert drawn_indices(1000, BindOptions(at_most=1000)) is None
    assert drawn_indices(n_rows, BindOptions(at_most=1000, limit=5)) is None


def test_a_suite_with_a_draw_names_it_and_runs_again_alike(tmp_path: Path) -> None:
    """The result says how many of how many samples; --limit and --samples replace the draw; a run is reproduced."""
    file = tmp_path / "few.yaml"
    members = "[{task: demo_facts, metric: acc}, {task: demo_letters_nature, metric: acc}]"
    file.write_text(f"name: few\nat_most: 7\nmembers: {members}\n")
    run = assaymark.evaluate(FakeModel(), suite=str(file))
    (facts, letters) = run.row.plan.tasks
    assert facts.n_samples == letters.n_samples == 7
    assert isinstance(facts.drawn, dict)
    assert f"demo_facts 7 of {facts.drawn['of']} samples" in " ".join(str(run).split())
    assert assaymark.evaluate(FakeModel(), suite=str(file)).id == run.id
    first = assaymark.evaluate(FakeModel(), suite=str(file), limit=7)
    assert first.id != run.id
    assert first.row.plan.tasks[0].drawn is None
    chosen = assaymark.evaluate(FakeModel(), suite=str(file), samples={"demo_facts": [1, 2]})
    assert [task.n_samples for task in chosen.row.plan.tasks] == [2, 7]
    assert positions(run.row.plan) is None
    assert positions(chosen.row.plan) == {"demo_facts": (1, 2)}
