"""Names as tables show them are accepted where a name is typed."""

import json
from pathlib import Path

import pytest

from assaymark.arena.arena_log import ArenaLog
from assaymark.cli.main import main
from assaymark.errors import UnknownName
from assaymark.registry import meant
from assaymark.store import Store

RUN = ["run", "--model", "fake", "--tasks", "demo_letters", "--limit", "4", "--quiet"]


def test_the_end_of_a_name_stands_for_the_only_one_that_ends_so() -> None:
    """Whole names come first; what several names end with, or none, stands for itself."""
    names = ["mmlu_anatomy", "mmlu_world_history", "mmlu_us_history", "org/small", "anatomy_of_x"]
    assert meant("anatomy", names) == "mmlu_anatomy"
    assert meant("small", names) == "org/small"
    assert meant("history", names) == "history"
    assert meant("natomy", names) == "natomy"
    assert meant("", names) == ""
    assert meant("mmlu_us_history", [*names, "x_mmlu_us_history"]) == "mmlu_us_history"


def test_samples_and_gates_take_shown_names(capsys: pytest.CaptureFixture[str]) -> None:
    """`people` is demo_letters_people, in --samples and in --gate."""
    assert main([*RUN, "--model_args", "seed=1"]) == 0
    assert main([*RUN, "--model_args", "seed=2"]) == 0
    capsys.readouterr()
    assert main(["show", "last", "--samples", "people", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 4
    assert main(["compare", "last~1", "last", "--gate", "people >= -0.99"]) in {0, 1}
    assert "people" in capsys.readouterr().err
    assert main(["compare", "last~1", "last", "--gate", "nobody >= -0.5"]) == 2


def test_rescoring_takes_shown_names(capsys: pytest.CaptureFixture[str]) -> None:
    """`rescore last --task people` scores demo_letters_people; what is not a name of the run is refused."""
    assert main(RUN) == 0
    assert main(["rescore", "last", "--task", "people"]) == 0
    capsys.readouterr()
    assert main(["rescore", "last", "--task", "nobody"]) == 2
    assert "unknown task in this run 'nobody'" in capsys.readouterr().err


def test_a_card_is_written_for_the_last_run(capsys: pytest.CaptureFixture[str]) -> None:
    """`card last` is the card of the last run's model."""
    assert main(RUN) == 0
    capsys.readouterr()
    assert main(["card", "last"]) == 0
    by_last = capsys.readouterr().out
    assert main(["ls", "runs", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert main(["card", run["model"]]) == 0
    assert capsys.readouterr().out == by_last
    assert "demo_letters" in by_last


LONG = "lab/Meta-Llama-3.1-8B-Instruct-preference-tuned-on-feedback-epoch-{}-seed-17"
COLUMNS = ("Letters of all kinds", "Places of the world", "Nature and animals", "Numbers and counting")


def long_named(folder: Path) -> None:
    """Write votes on, and a table of, two models whose long names differ in one place only."""
    first, second = LONG.format(1), LONG.format(2)
    votes = [f"{first},{second},{winner}\n" for winner in ("model_a", "model_b", "tie") * 10]
    (folder / "votes.csv").write_text("model_a,model_b,winner\n" + "".join(votes))
    rows = "".join(f"{name},{value},61.5,72.5,83.5\n" for name, value in ((first, 51.5), (second, 52.5)))
    (folder / "scores.csv").write_text(f"model,{','.join(COLUMNS)}\n{rows}")
    (folder / "board.yaml").write_text(
        "title: B\ntable:\n  file: scores.csv\n  format: csv\n  columns:\n"
        + "".join(f"    {c}: {c}\n" for c in COLUMNS)
    )


def test_no_table_is_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """At 80 columns every header and number is there, further columns below; in a pipe each row is one line."""
    long_named(tmp_path)
    board, votes = str(tmp_path / "board.yaml"), str(tmp_path / "votes.csv")
    for command, headers in (
        (["board", "query", board], ("rank", "average", *COLUMNS)),
        (["arena", "rate", votes], ("rating", "95% interval", "votes", "win rate")),
    ):
        monkeypatch.setenv("COLUMNS", "80")
        assert main(command) == 0
        narrow = capsys.readouterr().out
        assert max(map(len, narrow.splitlines())) <= 80
        assert "…" not in narrow
        assert all(header in narrow for header in headers), narrow
        monkeypatch.delenv("COLUMNS")
        assert main(command) == 0
        whole = capsys.readouterr().out.splitlines()
        assert any(all(header in line for header in headers) for line in whole), whole
        assert all(any(LONG.format(epoch) in line for line in whole) for epoch in (1, 2)), whole


def test_comparisons_and_lists_fit_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables of two models whose long names differ in one place tell them apart at 80 columns, and cut no number."""
    seeds = ("1234567890123456789012345678901", "1234567890123456789012345678902")
    for seed in seeds:
        assert main([*RUN, "--model_args", f"seed={seed}"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("COLUMNS", "80")
    for command in (["compare", "last~1", "last"], ["recommend", "--for", "letters"], ["ls", "runs"], ["ls", "models"]):
        assert main(command) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80, [line for line in lines if len(line) > 80]
        if command[1] != "models":
            text = "\n".join(lines)
            assert all(seed[-2:] in text for seed in seeds), text


def test_recommend_and_arena_take_shown_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`letters` is the benchmark demo_letters, and the end of a model's name the model whose rating is fixed."""
    long_named(tmp_path)
    assert main([*RUN, "--model_args", "seed=1"]) == 0
    capsys.readouterr()
    assert main(["recommend", "--for", "letters", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["for"] == ["demo-letters"]
    short = LONG.format(2).removeprefix("lab/")
    assert main(["arena", "rate", str(tmp_path / "votes.csv"), "--anchor", f"{short}=900", "--json"]) == 0
    rated = {each["model"]: each for each in json.loads(capsys.readouterr().out)["ratings"]}
    assert (rated[LONG.format(2)]["rating"], rated[LONG.format(2)]["low"]) == (900, None)


def test_arenas_take_the_ends_of_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`withdraw small` withdraws org/small, and `sums` is the generation task demo_sums; others are refused."""
    from assaymark.arena.answer_files import open_answers

    place = str(tmp_path / "s.sqlite")
    for seed in (1, 2):
        words = ["run", "--model", "fake", "--model_args", f"seed={seed},accuracy=0.5", "--tasks", "demo_sums"]
        assert main([*words, "--limit", "9", "--quiet", "--store", place]) == 0
    capsys.readouterr()
    with Store.open(place) as store:
        ArenaLog(store).register(["org/small", "org/large"])
        assert open_answers(["last", "last~1"], store, "sums")[0].name == "demo_sums"
        with pytest.raises(UnknownName, match="unknown task of these runs 'nothing'"):
            open_answers(["last", "last~1"], store, "nothing")
    assert main(["arena", "withdraw", "small", "--store", place]) == 0
    assert capsys.readouterr().out == "org/small is withdrawn\n"
