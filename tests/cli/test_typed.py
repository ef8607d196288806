"""The command line that is stored with a run."""

import sys
from pathlib import Path

import pytest

from assaymark.cli.main import main
from assaymark.cli.typed import typed_command
from assaymark.runs.demo import demo_model
from assaymark.store import Store


@pytest.mark.parametrize(
    "word",
    [
        "pretrained=x,token=hf_abcdef,dtype=auto",
        "token=hf_abcdef",
        '{"pretrained": "x", "token": "hf_abcdef"}',
        "api_key='hf_abcdef'",
    ],
)
def test_secrets_are_not_stored(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """The value of a token or key is hidden, in every spelling of the arguments."""
    monkeypatch.setattr(sys, "argv", ["assaymark", "run", "--model_args", word])
    assert "hf_abcdef" not in typed_command()
    assert "***" in typed_command()


def test_the_rest_is_stored_as_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments that only look like a secret are unchanged: flags, tokenizers, and token=True."""
    words = ["run", "--model_args", "pretrained=x,token=True,tokenizer=a/b,add_bos_token=True,max_tokens=3"]
    monkeypatch.setattr(sys, "argv", ["assaymark", *words])
    assert typed_command() == f"assaymark {' '.join(words)}"


def test_a_stored_run_has_no_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stored command of a run with a token does not contain the token."""
    store = str(tmp_path / "store.sqlite")
    arguments = f"pretrained={demo_model('small')},token=hf_abcdef,device=cpu"
    words = ["run", "--model_args", arguments, "--tasks", "demo_letters", "--limit", "2", "--quiet", "--store", store]
    monkeypatch.setattr(sys, "argv", ["assaymark", *words])
    assert main(words) == 0
    capsys.readouterr()
    with Store.open(store) as opened:
        (row,) = opened.runs()
        assert row.command is not None
        assert "token=***" in row.command
        assert "hf_abcdef" not in str(row)
