"""Written answers are lm-evaluation-harness 0.4.13's: prompt, text and every score, sample by sample, on real rows.

Greedy, float32, two models that write English: one of 4,096 positions, where nothing is cut, and the larger demo model
of 1,024, where most prompts lose their beginning. Where lm-eval's two best logits differ by less than 1e-4 either token
is right: such answers are counted, and compared up to there.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import assaymark
from tests.conftest import ROOT
from tests.parity.oracle import recorded_answers

pytest.importorskip("lm_eval")
pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

CASES = (  # task, shots, samples
    ("gsm8k", 5, 3),
    ("gsm8k_cot", 8, 3),
    ("bbh_cot_fewshot_snarks", 3, 2),
    ("bbh_cot_zeroshot_date_understanding", 0, 2),
    ("bbh_zeroshot_boolean_expressions", 0, 3),
    ("mmlu_pro_math", 5, 2),
    ("nq_open", 0, 4),
    ("truthfulqa_gen", 0, 3),
    ("agieval_math", 0, 3),
)
FOLDERS = (
    "gsm8k",
    "bbh/cot_fewshot",
    "bbh/cot_zeroshot",
    "bbh/zeroshot",
    "mmlu_pro",
    "nq_open",
    "truthfulqa",
    "agieval",
)
MAX_TOKENS = 32
NQ = Path("google-research-datasets", "nq_open", "nq_open")
MOST_TIES = 2  # of the answers of one model


def data_with_nq_open(shared: Path, made: Path) -> Path:
    """Return a folder that links to the real data and gives nq_open the train split that lm-eval insists on."""
    for dataset in (path for org in shared.iterdir() if org.is_dir() for path in org.iterdir()):
        link = made / dataset.relative_to(shared)
        link.parent.mkdir(parents=True, exist_ok=True)
        if dataset.name != NQ.parts[1]:
            link.symlink_to(dataset)
    (made / NQ).mkdir(parents=True)
    (made / NQ / "validation.parquet").symlink_to(shared / NQ / "validation.parquet")
    (made / NQ / "train.parquet").symlink_to(ROOT / "tests" / "fixtures" / "data" / NQ / "train.parquet")
    return made


def wide_model(stories: Path, made: Path) -> Path:
    """Return stories260K with room for 4,096 positions; its rotary positions have no end of their own."""
    made.mkdir()
    for path in stories.iterdir():
        shutil.copyfile(path, made / path.name)
    config = json.loads((made / "config.json").read_text())
    (made / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 4096}))
    return made


@pytest.fixture(scope="module")
def case(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Path], Path, dict[str, Any]]:
    """Return the models' folders, the data's, and what lm-eval wrote: model -> task -> results and samples."""
    folder = tmp_path_factory.mktemp("written")
    data = data_with_nq_open(shared_dir / "data", folder / "data")
    models = {
        "wide": wide_model(shared_dir / "models" / "stories260K", folder / "wide"),
        "demo": ROOT / "src" / "assaymark" / "library" / "demo_models" / "large",
    }
    content = {"data": str(data), "gen_kwargs": f"max_gen_toks={MAX_TOKENS}", "folders": FOLDERS,
               "models": {name: [str(path), CASES] for name, path in models.items()}}  # fmt: skip
    answers = recorded_answers("run_lm_eval_writing", content, shared_dir, folder, OMP_NUM_THREADS="1")
    return models, data, answers


def written(model: Path, data: Path, folder: Path) -> dict[str, assaymark.Run]:
    """Return our runs by task."""
    loaded = assaymark.load_model(model, dtype="float32")
    options: dict[str, Any] = {"data_dir": data, "store": str(folder / "store.sqlite")}
    return {
        task: assaymark.evaluate(
            loaded, task, num_fewshot=shots, limit=limit, gen_kwargs={"max_gen_toks": MAX_TOKENS}, **options
        )
        for task, shots, limit in CASES
    }


def differences(run: assaymark.Run, task: str, theirs: dict[str, Any]) -> tuple[list[str], int]:
    """Return a line per sample that differs, and how many differ after a near tie only."""
    by_sample: dict[int, list[dict[str, Any]]] = {}
    for sample in theirs["samples"]:
        by_sample.setdefault(sample["doc_id"], []).append(sample)
    wrong, ties = [], 0
    records = run.samples(task)
    assert len(records) == len(by_sample)
    for record in records:
        answers = by_sample[record.request.sample_index]
        text, expected = record.outputs[0].text or "", answers[0]["text"]
        if hashlib.sha256(record.request.prompt.encode()).hexdigest() != answers[0]["prompt_hash"]:
            wrong.append(f"{task} {record.request.sample_index}: another prompt")
        elif text != expected and any(text.startswith(begin) for begin in theirs["near_ties"]):
            ties += 1
        else:
            ours = {(score.filter, score.metric): score.value for score in record.scores}
            scored = {
                (answer["filter"], name): value for answer in answers for name, value in answer["metrics"].items()
            }
            if text != expected or scored.items() - ours.items():
                wrong.append(f"{task} {record.request.sample_index}: {text!r} {ours} against {expected!r} {scored}")
    return wrong, ties


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wide", "demo"])
def test_text_and_scores_are_the_same(
    name: str, case: tuple[dict[str, Path], Path, dict[str, Any]], tmp_path: Path
) -> None:
    """Every answer is lm-eval's text, with its scores under every filter; the tasks' values are its values too."""
    models, data, theirs = case
    n_ties = 0
    for task, run in written(models[name], data, tmp_path).items():
        wrong, ties = differences(run, task, theirs[name][task])
        assert wrong == []
        n_ties += ties
        for estimate in run.estimates if not ties else ():
            value = theirs[name][task]["results"].get(f"{estimate.metric},{estimate.filter}")
            if value is not None:
                assert estimate.details["lm_eval_value"] == pytest.approx(value, rel=1e-9), (task, estimate)
    assert n_ties <= MOST_TIES
