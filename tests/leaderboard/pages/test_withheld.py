"""Gated data sets: scores are shown, questions and answers are not, unless the host allows it."""

import json
import re
from pathlib import Path

import httpx
import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.served import running

SECRET = "Zanzibarite"
TASK = """
task: gpqa_diamond_zeroshot
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: gold
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, made_once: Path) -> Path:
    """Two runs of a task that is called as one of GPQA's, and a board of it."""
    folder = tmp_path_factory.mktemp("gated")
    rows = [{"question": f"What is {SECRET} {n}?", "choices": [f"{SECRET} a{n}", f"{SECRET} b{n}"], "gold": n % 2}
            for n in range(20)]  # fmt: skip
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "gpqa.yaml").write_text(TASK)
    (folder / "board.yaml").write_text("title: Gated\ntasks: [gpqa.yaml]\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_HOME", str(folder / "home"))
        patch.setenv("ASSAYMARK_CACHE", str(made_once))
        for seed in (1, 2):
            words = ["--model", "fake", "--model_args", f"seed={seed}", "--tasks", str(folder / "gpqa.yaml")]
            assert main(["run", *words, "--store", str(folder / "runs.sqlite"), "--quiet"]) == 0
    return folder


def pages(folder: Path, *, show_gated: bool) -> dict[str, httpx.Response]:
    """Return every kind of page that could hold a question or an answer, and its JSON."""
    runs = StoredRuns(Store.open_to_read(str(folder / "runs.sqlite")), show_gated=show_gated)
    first, second = (run.run_id for run in runs.runs())
    paths = ["/board/board", "/board/board/about", f"/run/{first}", f"/run/{first}/samples/gpqa_diamond_zeroshot",
             f"/run/{first}/samples/gpqa_diamond_zeroshot?q={SECRET}",
             f"/run/{first}/samples/gpqa_diamond_zeroshot?q=3",
             f"/run/{first}/samples/gpqa_diamond_zeroshot?wrong=1", "/task/gpqa_diamond_zeroshot",
             f"/run/{first}/samples/gpqa_diamond_zeroshot/3", f"/compare?runs={first},{second}"]  # fmt: skip
    with running(create_app([board_feature(Site([read_board(folder / "board.yaml")], runs))])) as url:
        results = {}
        for path in paths:
            place, mark, query = path.partition("?")
            for each in (path, f"{place}.json{mark}{query}"):
                results[each.replace(first, "RUN").replace(second, "OTHER")] = httpx.get(url + each, timeout=20)
        return results


def test_texts_are_withheld(folder: Path) -> None:
    """On no page, in no twin; the search finds nothing by text; the sample's page says why and how to allow it."""
    result = pages(folder, show_gated=False)
    for path, response in result.items():
        assert SECRET not in re.sub(f'(q=|%3Fq%3D|value="){SECRET}', "", response.text), path
    sample = result["/run/RUN/samples/gpqa_diamond_zeroshot/3"]
    assert sample.status_code == 403
    assert "--show_gated" in sample.text
    assert "(withheld: the data set is gated)" in result["/run/RUN/samples/gpqa_diamond_zeroshot"].text
    assert result["/board/board"].status_code == 200


def test_the_host_may_allow_them(folder: Path) -> None:
    """With the option they are shown as any other."""
    result = pages(folder, show_gated=True)
    assert result["/run/RUN/samples/gpqa_diamond_zeroshot/3"].status_code == 200
    assert SECRET in result["/run/RUN/samples/gpqa_diamond_zeroshot/3"].text
    assert SECRET in result["/run/RUN/samples/gpqa_diamond_zeroshot"].text


@pytest.mark.slow
def test_the_static_site_withholds_them_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of an export holds a text; with the option some do."""
    monkeypatch.chdir(folder)
    words = ["board", "export", "board.yaml", "--store", "runs.sqlite"]
    assert main([*words, "-o", "site"]) == 0
    assert not [
        path for path in (folder / "site").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert main([*words, "-o", "open", "--show_gated"]) == 0
    assert [path for path in (folder / "open").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
