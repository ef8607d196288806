"""Runs of lm-eval itself and of our runner on the same tasks, once for all tests of this folder."""

import importlib.util
from pathlib import Path

import pytest

from assaymark.interop.lm_eval_files import sanitised_model, write_lm_eval_files
from assaymark.results.evidence.from_store import save_summary
from assaymark.store import Store

GROUP = """\
group: pair
task: [arc_easy, arc_challenge]
aggregate_metric_list:
  - {metric: acc, aggregation: mean, weight_by_size: true}
  - {metric: acc_norm, aggregation: mean, weight_by_size: false}
metadata: {version: 3.0}
"""
LIMIT = 8
NAMES = ["pair", "lambada_openai"]


@pytest.fixture(scope="session")
def both(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Run lm-eval and our runner on the same two tasks and a group; return both folders of files."""
    pytest.importorskip("lm_eval", reason="lm_eval is not installed: pip install '.[lm-eval]'")
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("both")
    (folder / "tasks").mkdir()
    (folder / "tasks" / "pair.yaml").write_text(GROUP)
    model = shared_dir / "models" / "stories260K"
    if not model.is_dir():
        pytest.skip(f"no {model}")
    run_lm_eval(shared_dir, model, folder)
    run_ours(shared_dir, model, folder)
    name = sanitised_model(str(model))
    return folder / "theirs" / name, folder / "ours" / name


def run_lm_eval(shared_dir: Path, model: Path, folder: Path) -> None:
    """Run lm-eval itself, in this process, on the local data."""
    import lm_eval.tasks
    from lm_eval.loggers import EvaluationTracker

    import datasets

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "load_dataset", datasets.load_dataset)  # restored at the end: the import replaces it
        patch.setenv("DISABLE_MULTIPROC", "1")
        place = shared_dir / "tools" / "lm_eval_offline.py"
        spec = importlib.util.spec_from_file_location("lm_eval_offline", place)
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        own = Path(lm_eval.tasks.__file__).parent
        manager = lm_eval.tasks.TaskManager(
            include_path=[str(folder / "tasks"), str(own / "arc"), str(own / "lambada")], include_defaults=False
        )
        tracker = EvaluationTracker(output_path=str(folder / "theirs"))
        results = lm_eval.simple_evaluate(
            model="hf",
            model_args={"pretrained": str(model), "dtype": "float32", "logits_cache": False},
            tasks=NAMES,
            limit=LIMIT,
            device="cpu",
            batch_size=4,
            bootstrap_iters=1000,
            task_manager=manager,
            evaluation_tracker=tracker,
            apply_chat_template=False,
            fewshot_as_multiturn=None,
        )
        samples = results.pop("samples")
        tracker.save_results_aggregated(results=results, samples=samples)
        for name in results["configs"]:
            tracker.save_results_samples(task_name=name, samples=samples[name])


def run_ours(shared_dir: Path, model: Path, folder: Path) -> None:
    """Run the same tasks with our own runner and write its files."""
    from assaymark.models.create import create_model
    from assaymark.runs.execute import execute
    from assaymark.runs.plan import RunOptions, prepare
    from assaymark.tasks.bound import BindOptions
    from assaymark.tasks.catalog import Catalog

    selection = Catalog.open([folder / "tasks"]).select(NAMES)
    answering = create_model("hf", {"pretrained": str(model), "dtype": "float32"})
    options = RunOptions(bind=BindOptions(limit=LIMIT, data_dir=shared_dir / "data"))
    prepared = prepare(selection, answering, options)
    with Store.open(str(folder / "store.sqlite")) as store:
        run_id = execute(prepared, answering, store).run_id
        save_summary(store, run_id, selection, prepared.bound, bootstrap_iters=1000)
        write_lm_eval_files(store, run_id, folder / "ours", log_samples=True)
