"""A sample's page and the list of samples: verdicts and targets as a reader understands them."""

import re
from pathlib import Path

import httpx
import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.commands.serve import open_site
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.records import GenerateQuery, GenerationSettings, Output, Request, Score
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.served import running
from tests.store import examples


def test_a_perplexity_is_never_right_and_a_target_is_a_text(
    tmp_path: Path, made_once: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log-likelihood has no verdict, on no page; a target that is a choice's number is shown as that choice."""
    monkeypatch.setenv("ASSAYMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ASSAYMARK_CACHE", str(made_once))
    place = str(tmp_path / "runs.sqlite")
    tasks = "demo_stories,demo_facts"
    for seed in ("1", "2"):
        words = ["run", "--model", "fake", "--model_args", f"seed={seed}", "--tasks", tasks, "--store", place]
        assert main([*words, "--limit", "6", "--quiet"]) == 0
    with Store.open_to_read(place) as store:
        run = store.runs()[0].run_id
        (fact,) = store.samples(run, "demo_facts", indices=[0])
    with (
        running(create_app([board_feature(open_site((), place))])) as url,
        httpx.Client(base_url=url, timeout=20) as client,
    ):
        for path in ("", "/0"):
            page = client.get(f"/run/{run}/samples/demo_stories{path}").text
            assert {each.split(">")[1] for each in re.findall(r'class="verdict[^"]*">\w+', page)} == {"scored"}, path
        listed = client.get(f"/run/{run}/samples/demo_facts").text
        assert {item.split(">")[1] for item in re.findall(r'class="verdict[^"]*">\w+', listed)} <= {"right", "wrong"}
        assert client.get(f"/run/{run}/samples/demo_stories.json").json()["samples"][0]["verdict"] == "scored"
        page = client.get(f"/run/{run}/samples/demo_facts/0").text
    assert re.fullmatch(r"\d", fact.request.target)
    target = re.search(r"<h2>Target</h2><pre[^>]*>([^<]*)</pre>", page)
    gold = re.search(r'<tr class="gold"><th scope="row" class="text">([^<]*)</th>', page)
    assert target is not None
    assert gold is not None
    assert target[1] == gold[1]


def test_a_sample_of_several_turns_has_one_switch_to_the_raw_texts(tmp_path: Path) -> None:
    """Its page shows both answers, and ids of the page are unique."""
    place = str(tmp_path / "runs.sqlite")
    row = examples.sample("talk", 0)
    settings = GenerationSettings(max_tokens=8)
    requests = [
        Request("talk", 0, row.sha256, (f"Question {turn}",), (GenerateQuery(0, settings),), turn=turn)
        for turn in (0, 1)
    ]
    with Store.open(place) as store:
        run = store.open_run(examples.plan(("talk",), n_samples=1), facts={})
        store.add_requests(run.run_id, requests, [row])
        store.add(run.run_id, run.attempt_id, [Output(each.id, 0, text=f"Answer {each.turn}") for each in requests])
        store.add_scores(run.run_id, [Score(requests[-1].id, "exact_match", 1.0)], examples.SCORING)
        store.close_run(run.run_id, run.attempt_id, "finished")
    with running(create_app([board_feature(open_site((), place))])) as url:
        page = httpx.get(f"{url}/run/{run.run_id}/samples/talk/0", timeout=20).text
    assert all(f"Answer {turn}" in page for turn in (0, 1))
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert "raw-text" in ids
    assert len(ids) == len(set(ids))
