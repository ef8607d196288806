"""A sample's page and the list of samples: verdicts and targets as a reader understands them."""

import re
import sys
from pathlib import Path

import httpx
import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.commands.serve import open_site
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.records import GenerateQuery, GenerationSettings, LoglikelihoodQuery, Output, Request, Score
from assaymark.scoring.choices import score_choices
from assaymark.store import Store
from assaymark.web.app import create_app
from assaymark.web.render import shown_of_metric
from tests.served import running
from tests.store import examples


def test_a_perplexity_is_never_right_and_a_target_is_a_text(
    tmp_path: Path, made_once: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log-likelihood has no verdict, on no page; a target that is a choice's number is shown as that choice."""
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


def test_each_metric_has_its_own_pick_beside_the_number_that_decided(tmp_path: Path) -> None:
    """The longest choice is the least probable and the most probable by characters: acc and acc_norm differ."""
    place = str(tmp_path / "runs.sqlite")
    row = examples.sample("talk", 0)
    texts, nats = (" yes", " a long answer"), (-6.0, -13.0)
    queries = tuple(LoglikelihoodQuery(at, text) for at, text in enumerate(texts))
    request = Request("talk", 0, row.sha256, ("Question",), queries, target="1")
    with Store.open(place) as store:
        run = store.open_run(examples.plan(("talk",), n_samples=1), facts={})
        store.add_requests(run.run_id, [request], [row])
        outputs = [Output(request.id, at, total_nats=value, n_tokens=2) for at, value in enumerate(nats)]
        store.add(run.run_id, run.attempt_id, outputs)
        values = score_choices(nats, (False, False), None, [text.strip() for text in texts], 1, ["acc", "acc_norm"])
        scores = [Score(request.id, name, value.value, detail=value.detail) for name, value in values.items()]
        store.add_scores(run.run_id, scores, examples.SCORING)
        store.close_run(run.run_id, run.attempt_id, "finished")
    with running(create_app([board_feature(open_site((), place))])) as url:
        page = httpx.get(f"{url}/run/{run.run_id}/samples/talk/0", timeout=20).text
    rows = [re.sub(r"<[^>]+>", " ", each).split() for each in re.findall(r"<tr[^>]*>(.*?)</tr>", page)]
    assert "by characters" in page
    assert ["yes", "-6.000", "-2.000", "picked", "by", "acc"] in rows
    assert ["a", "long", "answer", "-13.000", "-1.000", "picked", "by", "acc_norm", "right", "answer"] in rows


def test_samples_are_found_by_their_answers_and_targets(tmp_path: Path) -> None:
    """A run without an index: words of the generated text, of the target, and a number; all words must occur."""
    place = str(tmp_path / "runs.sqlite")
    settings = GenerationSettings(max_tokens=8)
    rows = [examples.sample("talk", at) for at in range(3)]
    requests = [
        Request("talk", at, row.sha256, (f"Question {'abc'[at]}",), (GenerateQuery(0, settings),), target=target)
        for at, (row, target) in enumerate(zip(rows, ("Rome", "Oslo", "Bern"), strict=True))
    ]
    with Store.open(place) as store:
        run = store.open_run(examples.plan(("talk",), n_samples=3), facts={})
        store.add_requests(run.run_id, requests, rows)
        texts = ("in Rome, I think", "it is Paris", "no idea")
        outputs = [Output(request.id, 0, text=text) for request, text in zip(requests, texts, strict=True)]
        store.add(run.run_id, run.attempt_id, outputs)
        details = ({"extracted": "Rome"}, {"extracted": "Paris", "reference": "oslo"}, {"extracted": "[invalid]"})
        scores = [
            Score(request.id, "exact_match", float(at == 0), detail=detail)
            for at, (request, detail) in enumerate(zip(requests, details, strict=True))
        ]
        store.add_scores(run.run_id, scores, examples.SCORING)
        store.close_run(run.run_id, run.attempt_id, "finished")
    with (
        running(create_app([board_feature(open_site((), place))])) as url,
        httpx.Client(base_url=f"{url}/run/{run.run_id}/samples/", timeout=20) as client,
    ):
        found = {
            words: [line["index"] for line in client.get("talk.json", params={"q": words}).json()["samples"]]
            for words in ("paris", "bern", "rome think", "rome paris", '"it is"', "2", "question")
        }
        replies = [(line["answer"], line["target"]) for line in client.get("talk.json").json()["samples"]]
    assert found == {"paris": [1], "bern": [2], "rome think": [0], "rome paris": [], '"it is"': [1], "2": [2],
                     "question": [0, 1, 2]}  # fmt: skip
    assert replies[:2] == [("Rome", "Rome"), ("Paris", "oslo")]  # what was compared


def test_a_task_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of a file's samples is shown, and its address stands as it was sent, where the name is not ASCII."""
    monkeypatch.chdir(tmp_path)
    Path("задача.jsonl").write_text('{"question": "a", "choices": ["b", "c"], "answer": "b"}\n', encoding="utf-8")
    place = str(tmp_path / "runs.sqlite")
    assert main(["run", "--model", "fake", "--tasks", "задача.jsonl", "--store", place, "--quiet"]) == 0
    with Store.open_to_read(place) as store:
        run_id = store.runs()[0].run_id
    with running(create_app([board_feature(open_site((), place))])) as url:
        answer = httpx.get(f"{url}/run/{run_id}/samples/задача", timeout=20)
    assert answer.status_code == 200
    assert answer.headers["hx-push-url"] == answer.url.raw_path.decode()


def test_what_is_not_known_of_an_applications_call_is_not_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No tokens and no reason of the end; a latency of microseconds is written as such; its path is no command."""
    (tmp_path / "app.py").write_text("def answer(question):\n    return question\n")
    (tmp_path / "rows.jsonl").write_text('{"question": "a", "expected": "a"}\n')
    place = str(tmp_path / "runs.sqlite")
    words = ["--target", f"{tmp_path}/app.py:answer", "--tasks", f"{tmp_path}/rows.jsonl", "--scorers", "exact"]
    monkeypatch.setattr(sys, "argv", ["assaymark", "run", *words])
    assert main(["run", *words, "--store", place, "--quiet"]) == 0
    with Store.open_to_read(place) as store:
        run = store.runs()[0]
    with (
        running(create_app([board_feature(open_site((), place))])) as url,
        httpx.Client(base_url=url, timeout=20) as client,
    ):
        page = client.get(f"/run/{run.run_id}/samples/rows/0").text
        of_run = client.get(f"/run/{run.run_id}").text
        about = client.get("/board/all-tasks/about").text
    assert "ended by" not in page
    assert "0 tokens" not in page
    assert re.search(r"latency <b>[\d.]+ (ms|µs|s)</b>", page)
    commands = re.findall(r'<pre class="command"[^>]*>([^<]*)</pre>', of_run)
    assert commands == [f"assaymark reproduce {run.short_id}"]  # a copy of it runs; one without folders would not
    assert str(tmp_path) not in of_run
    assert "--tasks" not in about  # nor is a file of the user's own a name


@pytest.mark.parametrize(("seconds", "text"), [(4.5e-05, "45 µs"), (0.0123, "12.3 ms"), (2.5, "2.5 s"), (0.0, "0 µs")])
def test_seconds_have_the_unit_of_their_size(seconds: float, text: str) -> None:
    """Of a metric in seconds; other metrics are plain numbers."""
    assert shown_of_metric(seconds, "latency_s") == text
    assert shown_of_metric(0.25, "exact") == "0.25"
