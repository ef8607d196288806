"""Toxicity by HELM's three numbers, with the scorer named: a classifier of the user's, stored scores, or profanity."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import assaymark
from assaymark.audit.toxicity import audit_toxicity, scored_toxicity, toxicity_of
from assaymark.cli.main import main
from assaymark.errors import DataError, UsageError
from assaymark.models.fake import FakeModel
from assaymark.models.text_classifier import TextClassifier
from tests.applications.oracles.locked import needs_oracle, oracle, oracle_packages

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "you", "are", "kind", "vile"]


def test_the_numbers_are_those_of_the_definitions() -> None:
    """Of three samples: a share per sample, the highest score, and whether that is at least one half."""
    audit = toxicity_of("t", "mine", [[0.5, 0.1, None], [0.2, 0.3], [None]])
    values = {each.metric: each.value for each in audit.measures}
    assert values == {
        "toxic_frac (mine)": pytest.approx((1 / 2 + 0 + 0) / 3),
        "expected_max_toxicity (mine)": pytest.approx((0.5 + 0.3 + 0) / 3),
        "max_toxicity_probability (mine)": pytest.approx(1 / 3),
    }
    assert (audit.n_samples, audit.n_texts, audit.n_empty) == (3, 4, 2)
    for measure in audit.measures:
        assert measure.low is not None
        assert measure.high is not None
        assert measure.low <= measure.value <= measure.high
    with pytest.raises(DataError, match=r"mine scored a text of t 1\.5; expected a number from 0 to 1"):
        toxicity_of("t", "mine", [[1.5]])


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> assaymark.Run:
    """A run whose answers are kind or vile."""
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"Say {at}", "answer": "you are vile" if at % 4 == 0 else "you are kind"} for at in range(8)]
    (tmp_path / "say.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return assaymark.evaluate(FakeModel(mode="gold", accuracy=1.0), "say.jsonl", store=str(tmp_path / "s.sqlite"))


def classifier_folder(folder: Path, labels: tuple[str, str] = ("fine", "toxic")) -> Path:
    """Write a tiny classifier of transformers whose probabilities depend on the words alone."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
        max_position_embeddings=16, id2label=dict(enumerate(labels)), label2id={n: at for at, n in enumerate(labels)},
    )  # fmt: skip
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def test_a_classifier_of_the_users_gives_the_scores(
    run: assaymark.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The probabilities are those of the model called directly, and its folder, label and hash are in each name."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    folder = classifier_folder(tmp_path / "toxbert")
    classifier = TextClassifier(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    texts = ["you are vile", "you are kind"]
    with torch.no_grad():
        direct = [model(**tokens(text, return_tensors="pt")).logits.softmax(-1)[0, 1].item() for text in texts]
    assert classifier.probabilities(texts) == pytest.approx(direct, abs=1e-6)
    assert main(["audit", "toxicity", run.id, "--scorer", str(folder), "--store", "s.sqlite", "--json"]) == 0
    (audit,) = json.loads(capsys.readouterr().out)
    assert audit["scorer"] == f"toxbert toxic {classifier.digest}"
    by_name = {each["metric"].partition(" ")[0]: each["value"] for each in audit["measures"]}
    assert by_name["expected_max_toxicity"] == pytest.approx((2 * direct[0] + 6 * direct[1]) / 8, abs=1e-6)
    assert main(["audit", "toxicity", run.id, "--scorer", str(tmp_path / "no"), "--store", "s.sqlite"]) == 3
    assert "is not a directory; expected a folder" in capsys.readouterr().err


def test_a_label_must_be_known(tmp_path: Path) -> None:
    """Without a label named toxic one must be chosen, among those that there are."""
    folder = classifier_folder(tmp_path / "two", ("LABEL_0", "LABEL_1"))
    with pytest.raises(UsageError, match="none of them is named toxic"):
        TextClassifier(folder)
    with pytest.raises(UsageError, match="has no label 'bad'; its labels are LABEL_0, LABEL_1"):
        TextClassifier(folder, "bad")
    assert TextClassifier(folder, "LABEL_1").label == "LABEL_1"


def test_stored_scores_are_a_scorer(run: assaymark.Run) -> None:
    """A metric with scores from 0 to 1, as a judge stores them, gives the numbers under its name."""
    (audit,) = scored_toxicity(run.store, run.id, (), "exact_match")
    assert audit.measures[0].metric == "toxic_frac (exact_match)"
    assert audit.measures[0].value == 1.0
    with pytest.raises(DataError, match=r"no task of this run has scores of harm; it has .*exact_match"):
        scored_toxicity(run.store, run.id, (), "harm")


def test_profanity_is_asked_for_by_name(
    run: assaymark.Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scorer is alt-profanity-check where it is installed; without it one line says how to install it."""
    monkeypatch.setitem(sys.modules, "profanity_check", None)
    assert main(["audit", "toxicity", run.id, "--scorer", "profanity", "--store", "s.sqlite"]) == 2
    assert "needs the extra 'profanity', which is not installed" in capsys.readouterr().err
    module = types.ModuleType("profanity_check")
    module.predict_prob = lambda texts: [0.9 if "vile" in text else 0.1 for text in texts]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "profanity_check", module)
    assert main(["audit", "toxicity", run.id, "--scorer", "profanity", "--json", "--store", "s.sqlite"]) == 0
    assert "alt-profanity-check" in capsys.readouterr().out


TEXTS = [
    "you are vile", "you are kind", "what the fuck is this", "go to hell", "Damn, this shit is cold", "f u c k", "x",
    "The capital of France is Paris.", "Scunthorpe's assassins pass the classics", "naïve café, ça va ?", "ß\u0000\n",
    "WHAT AN IDIOT", "0", "你好，世界", "a" * 5000, "kill yourself " * 50,
]  # fmt: skip
WITH_PACKAGES = """
import json, sys
sys.path.append(sys.argv.pop(1))
from assaymark.audit.toxicity import profanity_scorer
from assaymark.cli.main import main
print(json.dumps(profanity_scorer()(json.load(sys.stdin))))
sys.exit(main(sys.argv[1:]))
"""


@needs_oracle("profanity")
def test_probabilities_are_alt_profanity_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text's probability, and the command's three numbers of a run with those texts, are of its own code."""
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"Say {at}", "answer": text} for at, text in enumerate(TEXTS)]
    (tmp_path / "say.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = assaymark.evaluate(FakeModel(mode="gold", accuracy=1.0), "say.jsonl", store=str(tmp_path / "s.sqlite"))
    written = [output.text for record in run.samples("say") for output in record.outputs]
    assert sorted(map(str, written)) == sorted(TEXTS)
    theirs = oracle("profanity", TEXTS, tmp_path)
    command = ["audit", "toxicity", run.id, "--scorer", "profanity", "--store", "s.sqlite", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", WITH_PACKAGES, str(oracle_packages("profanity")), *command],
        input=json.dumps(TEXTS), capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    scores, _, printed = done.stdout.partition("\n")
    assert json.loads(scores) == pytest.approx(theirs["predict_prob"], abs=1e-12)
    (audit,) = json.loads(printed)
    values = {each["metric"]: each["value"] for each in audit["measures"]}
    assert values["expected_max_toxicity (alt-profanity-check)"] == pytest.approx(
        sum(theirs["predict_prob"]) / len(TEXTS)
    )
    n_profane = sum(theirs["predict"])
    assert 0 < n_profane < len(TEXTS)
    assert values["toxic_frac (alt-profanity-check)"] == pytest.approx(n_profane / len(TEXTS))


def test_empty_texts_are_not_scored(run: assaymark.Run) -> None:
    """The scorer sees each distinct text once, and no empty one."""
    seen: list[str] = []

    def scorer(texts: object) -> list[float]:
        seen.extend(texts)  # type: ignore[arg-type]
        return [0.0 for _ in seen]

    audit_toxicity(run.store, run.id, (), scorer, "mine")
    assert seen == ["you are kind", "you are vile"]
