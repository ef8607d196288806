"""Our engine inside lm-eval: results with `--model assaymark` instead of `--model hf`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assaymark.cli.main import main
from assaymark.errors import UsageError
from tests.conftest import ROOT

CASES = ("plain", "shots", "chat", "bos", "written")
pytestmark = [pytest.mark.oracle, pytest.mark.slow]


@pytest.fixture(scope="module")
def found(shared_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the results of both models, by case."""
    pytest.importorskip("lm_eval", reason="lm_eval is not installed: pip install '.[lm-eval]'")
    out = tmp_path_factory.mktemp("drop_in") / "found.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.interop.run_drop_in", str(shared_dir), str(out)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(out.read_text())
    return result


@pytest.mark.parametrize("case", CASES)
def test_results_equal_those_of_hf(found: dict[str, Any], case: str) -> None:
    """Each metric of each task equals that of lm-eval's own `hf`: 11 tasks, shots, chat template, BOS, generation.

    truthfulqa_mc2 and the perplexities are functions of the log-likelihoods themselves, whose last digits differ.
    """
    theirs, ours = found[case]["hf"]["results"], found[case]["assaymark"]["results"]
    assert ours.keys() == theirs.keys()
    for task, entry in theirs.items():
        numbers = {key: value for key, value in entry.items() if isinstance(value, float)}
        assert numbers
        for key, value in numbers.items():
            assert ours[task][key] == pytest.approx(value, rel=1e-5), (task, key)


@pytest.mark.parametrize("case", CASES)
def test_each_answer_equals_hfs(found: dict[str, Any], case: str) -> None:
    """Each prompt is the same, each log-likelihood within float32 rounding, each greedy flag and text equal."""
    theirs, ours = found[case]["hf"]["samples"], found[case]["assaymark"]["samples"]
    assert len(theirs) >= 3
    for (*place, expected), (*same_place, answers) in zip(theirs, ours, strict=True):
        assert same_place == place
        assert answers == _close(expected), place


def _close(value: Any) -> Any:
    if isinstance(value, list):
        return [_close(part) for part in value]
    return pytest.approx(value, abs=1e-3, rel=1e-5) if isinstance(value, float) else value


@pytest.mark.parametrize("case", CASES)
def test_the_files_have_the_same_facts_about_the_model(found: dict[str, Any], case: str) -> None:
    """Parameters, dtype, special tokens, window and chat template are recorded as for `hf`."""
    assert found[case]["assaymark"]["config"] == found[case]["hf"]["config"]
    assert found[case]["assaymark"]["facts"] == found[case]["hf"]["facts"]


def test_hf_remains_lm_evals_own(found: dict[str, Any]) -> None:
    """With our name registered first, `hf` is still lm-eval's class, and its other models are available."""
    assert found
    from assaymark.interop.lm_eval_adapter import register

    register()
    from lm_eval.api.registry import get_model

    assert get_model("hf").__module__ == "lm_eval.models.huggingface"
    assert get_model("assaymark").__module__ == "assaymark.interop.lm_eval_adapter"


def test_repeats_are_sampled_separately(shared_dir: Path) -> None:
    """lm-eval repeats a request by sending it again; sampled answers differ, greedy ones are equal."""
    pytest.importorskip("lm_eval")
    from lm_eval.api.instance import Instance

    from assaymark.interop.lm_eval_adapter import AssaymarkLM

    model = AssaymarkLM(pretrained=str(shared_dir / "models" / "stories260K"), dtype="float32", device="cpu")

    def query(**settings: Any) -> list[str]:
        arguments = ("Once upon a time", {"until": ["\n"], "max_gen_toks": 12, **settings})
        made = [
            Instance(request_type="generate_until", doc={}, arguments=arguments, idx=0, metadata=("t", 0, 3))
            for _ in range(3)
        ]
        return model.generate_until(made, disable_tqdm=True)

    assert len(set(query(do_sample=False))) == 1
    assert len(set(query(do_sample=True, temperature=1.0))) > 1


def test_a_missing_pretrained_argument_is_refused() -> None:
    """A missing pretrained= is reported in one line, not by a traceback."""
    pytest.importorskip("lm_eval")
    from assaymark.interop.lm_eval_adapter import AssaymarkLM

    with pytest.raises(UsageError, match="pretrained="):
        AssaymarkLM(dtype="float32")


def test_arguments_are_passed_to_lm_eval_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    """`assaymark lm-eval run --help` is lm-eval's own help, and hyphens stay hyphens."""
    pytest.importorskip("lm_eval")
    with pytest.raises(SystemExit) as stopped:
        main(["lm-eval", "run", "--help"])
    assert stopped.value.code == 0
    assert "--model_args" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["lm-eval", "run", "--no-such-word"])
    assert "--no-such-word" in capsys.readouterr().err
