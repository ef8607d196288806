"""Submissions over HTTP as their submitter, a reader and an attacker send them, to a real server."""

import gzip
import html
import json
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.evidence import sources_of
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.routes.queue import queue_feature
from assaymark.leaderboard.shown import all_rows
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.leaderboard.submission.checks import Policy
from assaymark.leaderboard.submission.moderation import Moderation
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.leaderboard.submission.queue_rows import JobProgress
from assaymark.leaderboard.submission.sources import FolderModels
from assaymark.leaderboard.view import View
from assaymark.store import Store
from assaymark.tasks.suites import suite_from
from assaymark.web.accounts import AccountTokens
from assaymark.web.app import create_app
from assaymark.web.secret import server_secret
from tests.cli.test_hostile_text import CORPUS
from tests.leaderboard.pages.test_pages import Page
from tests.served import running

MODELS = Path(assaymark.__file__).parent / "library" / "demo_models"
PROXY = "127.0.0.1"  # where the tests' own requests come from
JSON_TYPE = {"content-type": "application/json"}
CHANGES = ("/submit", "/submission/{id}/vote", "/submission/{id}/cancel", "/submission/{id}/relaunch",
           "/submission/{id}/withdraw", "/moderation/rename", "/moderation/revoke", "/flags", "/flags/settle",
           "/api/submissions", "/api/results", "/api/check", "/sign-out")  # fmt: skip


@dataclass
class SubmissionServer:
    """A server with submissions, and what is behind it."""

    url: str
    store: Store
    tokens: AccountTokens
    site: Site

    def token(self, name: str = "ada", role: str = "submitter", days: float = 1.0) -> str:
        """Return a token."""
        return self.tokens.make(name, role, days)

    def client(self, token: str = "", **headers: str) -> httpx.Client:
        """Return a client that sends a token."""
        inputs = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, timeout=20, headers={**inputs, **headers})

    def submit(self, token: str, **values: Any) -> httpx.Response:
        """Submit a model by the API."""
        with self.client(token) as client:
            return client.post("/api/submissions", json={"model": "small", **values})


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[SubmissionServer]:
    """Serve a board that takes submissions; our own address is a proxy's."""
    (tmp_path / "demo.yaml").write_text("title: Demo\nname: demo\ntasks: [demo_facts]\n")
    board = read_board(tmp_path / "demo.yaml")
    with Store.open(str(tmp_path / "store.sqlite")) as store:
        site = Site([board], StoredRuns(store))
        part = queue_feature(
            store,
            {"demo": board},
            [FolderModels([MODELS])],
            Policy(per_submitter=(3, 3600)),
            user_header="x-user",
            proxies=[PROXY],
            moderators=["boss"],
        )
        with running(create_app([board_feature(site), part], proxies=[PROXY])) as url:
            yield SubmissionServer(url, store, AccountTokens(server_secret()), site)


def form_token(page: str) -> str:
    """Return the token of a page's form."""
    result = re.search(r'name="token" value="([0-9a-f]{64,104})"', page)
    assert result
    return result[1]


@pytest.mark.slow
def test_submitted_followed_and_listed(queue: SubmissionServer) -> None:
    """A submission by the API is on its page, in the queue and in both twins."""
    made = queue.submit(queue.token(), kind="pretrained")
    assert made.status_code == 201
    with queue.client() as reader:
        twin = reader.get(made.json()["url"] + ".json").json()
        assert (twin["model"], twin["state"], twin["ahead"], twin["submitter"]) == ("small", "pending", 0, "ada")
        page = reader.get(made.json()["url"]).text
        assert ">next</span>" in page
        assert "<progress" not in page
        listed = reader.get("/queue.json").json()
        assert listed["counts"]["pending"] == 1
        assert listed["pending"][0]["submission"] == made.json()["submission"]
        for path in (made.json()["url"], "/queue", "/submit", "/flags", "/moderation"):
            assert reader.get(path).status_code == 200
        assert reader.get("/submission/unknown").status_code == 404


def test_a_failure_shows_reason_fault_and_log(queue: SubmissionServer) -> None:
    """What failed is in the queue, with whose fault it was; hostile text in it is text."""
    url = queue.submit(queue.token()).json()["url"]
    job = SubmissionQueue(queue.store).claim("", 60)
    assert job is not None
    SubmissionQueue(queue.store).fail(
        job, "submission", "<script>alert(1)</script> /home/me/secret/x.json", "log <img src=x>"
    )
    with queue.client() as reader:
        page = reader.get(url).text
        assert "&lt;script&gt;" in page
        assert "<script>alert" not in page
        assert "/home/me" not in page
        assert "log &lt;img" in page
        assert "fault of the model" in page
        assert "fault of the model" in reader.get("/queue").text
        twin = reader.get(url + ".json").json()
        assert (twin["state"], twin["fault"]) == ("failed", "submission")
        assert "/home/me" not in json.dumps(twin)
        assert reader.get("/queue.json").json()["failed"]
        assert "Report this failure" in page


def test_no_change_without_an_account_or_from_elsewhere(queue: SubmissionServer) -> None:
    """Every path that changes something refuses readers, other sites, and forms without their token."""
    submission = queue.submit(queue.token()).json()["submission"]
    for path in (each.format(id=submission) for each in CHANGES):
        with queue.client() as nobody:
            assert nobody.post(path, data={"model": "small"}).status_code in {401, 403}, path
        with queue.client(queue.token(), origin="https://evil.example") as elsewhere:
            assert elsewhere.post(path, json={"model": "small"}).status_code == 403, path
        with queue.client(queue.token(), **{"sec-fetch-site": "cross-site"}) as elsewhere:
            assert elsewhere.post(path, json={"model": "small"}).status_code == 403, path
        with queue.client() as browser:  # with the cookies of someone signed in, but without the form's token
            browser.get("/submit")
            browser.cookies.set("account", queue.token())
            assert browser.post(path, data={"model": "small"}).status_code == 403, path
            assert browser.get(path).status_code in {200, 404, 405}
    assert SubmissionQueue(queue.store).counts().by_state["pending"] == 1
    assert Moderation(queue.store).entries() == []


def test_signing_in_keeps_a_cookie_that_submits(queue: SubmissionServer) -> None:
    """The form's way: sign in, submit, be redirected to the submission; the cookie cannot be read by pages."""
    with queue.client() as browser:
        form = {"token": form_token(browser.get("/sign-in").text), "account": queue.token(), "back": "//evil.example"}
        answer = browser.post("/sign-in", data=form)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert re.search(r"account=asm_.*HttpOnly.*SameSite=lax", answer.headers["set-cookie"])
        page = browser.get("/submit")
        assert "Signed in as" in page.text
        fields = {"token": form_token(page.text), "board": "demo", "model": "small", "precision": "float32"}
        done = browser.post("/submit", data=fields)
        assert done.status_code == 303
        again = browser.post("/submit", data=fields)  # the same request once more
        assert again.status_code == 422
        assert "The same model was submitted" in again.text
    assert SubmissionQueue(queue.store).counts().by_state["pending"] == 1


def test_what_was_typed_survives_signing_in(queue: SubmissionServer) -> None:
    """A form that is sent without an account leads to the sign-in and back, with its fields; nothing is submitted."""
    with queue.client() as browser:
        page = browser.get("/submit").text
        assert (
            '<a href="/sign-in?back=%2Fsubmit">Sign in</a>' in page
            or '<a href="/sign-in?back=/submit">Sign in</a>' in page
        )
        typed = {
            "token": form_token(page),
            "board": "demo",
            "model": "small é&",
            "precision": "float32",
            "revision": "v1",
        }
        sent = browser.post("/submit", data=typed)
        assert sent.status_code == 303
        signing = browser.get(sent.headers["location"]).text
        back = html.unescape(re.findall(r'name="back" value="([^"]+)"', signing)[0])
        fields = {"token": form_token(signing), "account": queue.token(), "back": back}
        done = browser.post("/sign-in", data=fields)
        page = browser.get(done.headers["location"]).text
        assert 'value="small é&amp;"' in page
        assert 'value="v1"' in page
        assert ">ada</a>" in page  # in the header
    assert SubmissionQueue(queue.store).counts().by_state.get("pending", 0) == 0


def test_withdrawing_needs_a_reason_and_mistakes_are_no_failures(queue: SubmissionServer) -> None:
    """Without one nothing is withdrawn; a page that refuses says what is wrong, not that it failed."""
    submission = queue.submit(queue.token()).json()["submission"]
    with queue.client(queue.token("boss", "moderator")) as boss:
        refused = boss.post(f"/submission/{submission}/withdraw", data={"why": " "})
        assert refused.status_code == 400
        assert SubmissionQueue(queue.store).submission(submission).is_withdrawn is False
        assert boss.post(f"/submission/{submission}/withdraw", data={"why": "copied"}).status_code == 303
    assert SubmissionQueue(queue.store).submission(submission).is_withdrawn
    assert Moderation(queue.store).entries()[0].detail["why"] == "copied"
    with queue.client() as browser:
        for path, fields, heading in (
            ("/moderation/rename", {"old": "a", "new": "b"}, "Sign in first"),
            (f"/submission/{submission}/vote", {}, "Sign in first"),
            ("/submit", {"token": "x"}, "Not allowed"),
        ):
            answer = browser.post(path, data={"token": form_token(browser.get("/submit").text), **fields})
            assert f"<h1>{heading}</h1>" in answer.text, (path, answer.text)
            assert "This page failed" not in answer.text


def test_a_token_of_the_former_prefix_is_valid(queue: SubmissionServer) -> None:
    """What was signed before the prefix changed is valid until it ends."""
    with queue.client() as client:
        former = "evs_" + queue.token().removeprefix("asm_")
        headers = [(b"authorization", f"Bearer {former}".encode())]
        assert client.post("/api/check", json={"model": "small"}, headers=headers).status_code == 200


def test_forged_ended_and_revoked_tokens_are_refused(queue: SubmissionServer) -> None:
    """A changed name or role, another server's signature, an ended token, and one that was revoked."""
    good = queue.token()
    body, _, signature = good.removeprefix("asm_").partition(".")
    other = AccountTokens(b"another secret" * 4).make("ada", "moderator", 1)
    ended = AccountTokens(server_secret(), clock=lambda: time.time() - 10 * 86400).make("ada", "submitter", 1)
    changed = f"asm_{queue.token('ada', 'moderator').removeprefix('asm_').partition('.')[0]}.{signature}"
    for token in (other, ended, changed, f"asm_{body}.", f"asm_{body}", f"asm_.{signature}", "asm_", "x", "é" * 9):
        with queue.client() as client:
            answer = client.post(
                "/api/check", json={"model": "small"}, headers=[(b"authorization", f"Bearer {token}".encode())]
            )
            assert answer.status_code == 401, token
    assert queue.submit(good).status_code == 201
    account = queue.tokens.read(good)
    assert account is not None
    with queue.client(queue.token("boss", "moderator")) as boss:
        assert boss.post("/moderation/revoke", json={"id": account.token}).status_code == 200
    assert queue.submit(good, model="large").status_code == 401
    with queue.client() as browser:
        browser.cookies.set("account", good)
        assert "Signed in as" not in browser.get("/submit").text


def test_a_proxys_header_counts_only_from_the_proxy(queue: SubmissionServer, tmp_path: Path) -> None:
    """Our address is the proxy's, so its header signs in; on a server without a proxy the header is nothing."""
    values = {"model": "small"}
    with queue.client(**{"x-user": "eve"}) as client:
        token = form_token(client.get("/submit").text)
        assert client.post("/submit", data={**values, "token": token}).status_code == 303
        assert client.post("/moderation/rename", data={"token": token, "old": "a", "new": "b"}).status_code == 403
    with queue.client(**{"x-user": "boss"}) as client:
        token = form_token(client.get("/submit").text)
        assert client.post("/moderation/rename", data={"token": token, "old": "a", "new": "b"}).status_code == 303
    board = queue.site.board("demo")
    part = queue_feature(queue.store, {"demo": board}, [FolderModels([MODELS])], Policy(), user_header="x-user")
    with running(create_app([board_feature(queue.site), part])) as url, httpx.Client(base_url=url) as client:
        token = form_token(client.get("/submit").text)
        answer = client.post("/submit", data={**values, "token": token}, headers={"x-user": "boss"})
        assert answer.headers["location"].startswith("/sign-in?")


def test_limits_count_submitters_and_networks(queue: SubmissionServer) -> None:
    """Three submissions of one submitter; and of one IPv6 network, whichever of its addresses sends them."""
    token = queue.token()
    codes = [queue.submit(token, precision=each).status_code for each in ("float32", "bfloat16", "float16")]
    assert codes == [201, 201, 201]
    refused = queue.submit(token, model="large")
    assert refused.status_code == 422
    assert "3 are allowed" in refused.text
    statuses = []
    for number in range(70):
        with queue.client(queue.token(f"u{number}"), **{"x-forwarded-for": f"2001:db8::{number:x}"}) as client:
            statuses.append(client.post("/api/submissions", json={"model": "?"}).status_code)
    assert statuses == [422] * 60 + [429] * 10
    with queue.client(queue.token("v"), **{"x-forwarded-for": "2001:db8:0:1::1"}) as client:
        assert client.post("/api/submissions", json={"model": "?"}).status_code == 422


def lm_eval_results(value: float) -> Mapping[str, Any]:
    """Return what lm-eval writes of a run."""
    return {"results": {"demo_facts": {"alias": "demo_facts", "acc,none": value, "acc_stderr,none": 0.02}},
            "configs": {"demo_facts": {"task": "demo_facts", "output_type": "multiple_choice"}},
            "versions": {"demo_facts": 1}, "n-shot": {"demo_facts": 0},
            "n-samples": {"demo_facts": {"original": 200, "effective": 200}},
            "config": {"model": "hf", "model_args": "pretrained=small"}, "model_name": "small"}  # fmt: skip


def test_reported_results_stand_as_reported(queue: SubmissionServer) -> None:
    """A results file is a row marked reported, with a job that verifies it."""
    with queue.client(queue.token()) as client:
        made = client.post("/api/results", json={"model": "small", "results": lm_eval_results(0.5)})
        assert made.status_code == 201, made.text
    job = SubmissionQueue(queue.store).claim("", 60)
    assert job is not None
    assert job.kind == "reproduce"
    (row,) = [each for each in queue.site.table(queue.site.board("demo")).rows if not each.is_baseline]
    assert (row.model, row.origin) == ("small", "reported")
    SubmissionQueue(queue.store).finish(job, "run", (False, "not verified: 1 of 1 reported scores differ"))
    (row,) = [item for item in queue.site.table(queue.site.board("demo")).rows if not item.is_baseline]
    assert row.notes == ("not verified: 1 of 1 reported scores differ",)


def test_refused_reports_leave_nothing_and_are_nobody_elses(queue: SubmissionServer) -> None:
    """Results of a refused submission are removed; another's results cannot be reported again under another model."""
    queue.submit(queue.token())
    with queue.client(queue.token("eve")) as eve:
        twice = eve.post("/api/results", json={"model": "small", "results": lm_eval_results(0.9)})
        assert twice.status_code == 422
        of_another = {**lm_eval_results(0.9), "model_name": "acme/other"}
        other = eve.post("/api/results", json={"model": "large", "results": of_another})
        assert (other.status_code, "the results are of 'acme/other', and 'large' is submitted" in other.text) == (
            422,
            True,
        )
        assert queue.store.runs() == []
        assert eve.post("/api/results", json={"model": "large", "results": lm_eval_results(0.9)}).status_code == 201
    with queue.client(queue.token("mallory")) as mallory:
        values = {"model": "large", "precision": "float16", "results": lm_eval_results(0.9)}
        copied = mallory.post("/api/results", json=values)
        assert copied.status_code == 422
        assert "reported before" in copied.text
    assert len(queue.store.runs()) == 1


def test_uploads_are_read_as_data(queue: SubmissionServer, tmp_path: Path) -> None:
    """SQLite files, compressed bodies, deep nesting, huge numbers and other shapes are refused; nothing is stored."""
    place = tmp_path / "x.sqlite"
    with sqlite3.connect(place) as connection:
        connection.execute("CREATE TABLE runs (x)")
    connection.close()
    bomb = gzip.compress(b"0" * 50_000_000)
    with queue.client(queue.token()) as client:
        for body, headers in (
            (place.read_bytes(), JSON_TYPE),
            (bomb, {**JSON_TYPE, "content-encoding": "gzip"}),
            (bomb, {"content-type": "application/gzip"}),
            (b'{"model": "small", "results": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", JSON_TYPE),
            (b'{"model": "small", "results": {"results": 1' + b"0" * 6000 + b"}}", JSON_TYPE),
            (b'{"model": "small", "results": {"results": {"a": NaN}}}', JSON_TYPE),
            (b'{"model": "small", "results": "text"}', JSON_TYPE),
            (b'{"model": ["small", 1], "results": {}}', JSON_TYPE),
            (b'{"model": {"a": 1}}', JSON_TYPE),
            (b"[]", JSON_TYPE),
        ):
            answer = client.post("/api/results", content=body, headers=headers)
            assert answer.status_code in {400, 413, 415, 422}, (answer.status_code, body[:60])
        assert client.post("/api/results", content=b" " * (5 << 20), headers=JSON_TYPE).status_code == 413
        deep: Any = 1
        for _ in range(60):
            deep = {"results": deep}
        assert client.post("/api/results", json={"model": "small", "results": deep}).status_code == 422
    assert queue.store.runs() == []
    assert SubmissionQueue(queue.store).counts().by_state["pending"] == 0


def test_progress_is_streamed_until_the_state_changes(queue: SubmissionServer) -> None:
    """Server-sent events: waiting, then running with its share, then the end."""
    url = queue.submit(queue.token()).json()["url"]
    seen = []
    with queue.client() as client, client.stream("GET", f"{url}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        job = None
        for line in stream.iter_lines():
            if not line.startswith("data: "):
                continue
            seen.append(json.loads(line.removeprefix("data: ")))
            if seen[-1]["state"] == "pending":
                job = SubmissionQueue(queue.store).claim("", 60)
                assert job is not None
                SubmissionQueue(queue.store).renew(job, 60, JobProgress(1, 4, "evaluating"))
            elif seen[-1]["done"] == 0.25:
                assert job is not None
                SubmissionQueue(queue.store).finish(job, "run")
    assert seen[0]["state"] == "pending"
    assert seen[-1]["state"] == "finished"
    with queue.client() as client:
        assert client.get("/submission/nothing/events").status_code == 404


def test_one_network_watches_a_few_pages(queue: SubmissionServer) -> None:
    """The seventh stream of a network at once is refused; another network's, and one after another's end, is not."""
    url = queue.submit(queue.token()).json()["url"]
    with queue.client() as client, ExitStack() as open_ones:

        def watch(address: str) -> int:
            stream = client.stream("GET", f"{url}/events", headers={"x-forwarded-for": address})
            return open_ones.enter_context(stream).status_code

        assert [watch("198.51.100.1") for _ in range(8)] == [200] * 6 + [429] * 2
        assert watch("198.51.100.2") == 200
        open_ones.close()
        deadline = time.monotonic() + 20
        while (status := watch("198.51.100.1")) == 429 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert status == 200


def test_half_a_character_is_no_report(queue: SubmissionServer) -> None:
    """A report with half a surrogate pair or NUL, sent as JSON, is refused in one line, and nothing is stored."""
    with queue.client() as reader:
        token = form_token(reader.get("/flags").text)
        for text in (r"\ud800", r"\u0000"):
            body = '{"model": "small", "kind": "copy", "text": "a copy of another, HERE"}'.replace("HERE", text)
            answer = reader.post("/flags", content=body, headers={**JSON_TYPE, "x-form-token": token})
            assert answer.status_code == 400, answer.text
        assert "a copy of another" not in reader.get("/flags").text


GROUPS = {
    "itself": {"g": ["g"]},
    "each other": {"a": ["b"], "b": ["a"]},
    "deep": {f"g{n}": [f"g{n + 1}"] for n in range(3000)},
    "doubling": {f"g{n}": [f"g{n + 1}"] * 2 for n in range(19)},
    "no list": {"g": 5},
    "no name": {"g": [["demo_facts"]]},
}


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_groups_that_cannot_be_listed_are_refused(queue: SubmissionServer, groups: Mapping[str, Any]) -> None:
    """Groups in a circle, in too many levels or with too many tasks are one line, and nothing is stored."""
    results = {**lm_eval_results(0.5), "group_subtasks": groups}
    with queue.client(queue.token()) as client:
        answer = client.post("/api/results", json={"model": "small", "results": results})
    assert answer.status_code == 422, answer.text
    assert "group_subtasks" in answer.text
    assert queue.store.runs() == []


def test_only_the_submitter_and_moderators_act(queue: SubmissionServer) -> None:
    """Another submitter cannot cancel, nor a submitter relaunch, withdraw, rename or revoke; what is done is logged."""
    submission = queue.submit(queue.token()).json()["submission"]
    with queue.client(queue.token("eve")) as eve:
        assert eve.post(f"/submission/{submission}/cancel", json={}).status_code == 403
        for path in ("relaunch", "withdraw", "reproduce"):
            assert eve.post(f"/submission/{submission}/{path}", json={}).status_code == 403
        assert eve.post("/moderation/rename", json={"old": "small", "new": "eve/x"}).status_code == 403
        assert eve.post(f"/submission/{submission}/vote", json={}).json() == {"votes": 2}
        assert eve.post(f"/submission/{submission}/vote", json={}).status_code == 400
    with queue.client(queue.token("boss", "moderator")) as boss:
        assert boss.post(f"/submission/{submission}/cancel", json={}).status_code == 200
        assert boss.post(f"/submission/{submission}/relaunch", json={"why": "asked"}).status_code == 200
        assert boss.post(f"/submission/{submission}/nonsense", json={}).status_code == 404
        assert boss.post("/moderation/rename", json={"old": "small", "new": "a,b=c"}).status_code == 400
        assert boss.post("/moderation/rename", json={"old": "small", "new": "demo/small"}).status_code == 200
        log = boss.get("/moderation.json").json()
    assert [each["action"] for each in log["log"]] == ["rename", "relaunch", "cancel"]
    assert log["problems"] == []
    with queue.client() as reader:
        moved = reader.get("/model/small")
        assert (moved.status_code, moved.headers["location"]) == (308, "/model/demo/small")
        assert reader.get(f"/submission/{submission}.json").json()["model"] == "demo/small"


def test_hostile_reports_and_replies_are_text(queue: SubmissionServer) -> None:
    """Whatever a reader writes is shown as text, in the list, on the report's page and in the form."""
    with queue.client() as reader:
        reader.headers["x-forwarded-for"] = "198.51.100.0"  # of the first form
        token = form_token(reader.get("/flags").text)
        for number, text in enumerate(CORPUS.values()):
            reader.headers["x-forwarded-for"] = f"198.51.100.{number}"
            fields = {
                "token": token,
                "model": text[:200],
                "kind": "other",
                "text": f"{text} and twenty characters more",
            }
            made = reader.post("/flags", data=fields)
            assert made.status_code in {303, 400}, text
            if made.status_code == 303:
                reply = reader.post(made.headers["location"] + "/reply", data={"token": token, "text": text or "?"})
                assert reply.status_code in {303, 400}
                answer = reader.get(made.headers["location"])
                assert answer.status_code == 200
                page = Page(answer.text)
                assert not page.tags & {"iframe", "object", "embed", "img"}
                assert not [name for name in page.attributes if name.startswith("on") or name == "style"]
                assert all(str(script["src"]).startswith("/static/") for script in page.scripts)
        page = Page(reader.get("/flags").text)
        assert not page.tags & {"iframe", "object", "embed", "img"}
        assert not [link for link in page.links if link.lower().startswith(("javascript:", "data:"))]


def test_reported_values_outside_of_their_metrics_range_are_refused(queue: SubmissionServer) -> None:
    """An accuracy of -5, 1.5, 1e308 or infinity, an impossible error or number of samples: 422, and nothing stored."""
    entry = {"acc_stderr,none": 0.02, "acc,none": 0.5}
    with queue.client(queue.token()) as client:
        for change in ({"acc,none": -5}, {"acc,none": 1.5}, {"acc,none": 1e308}, {"acc_stderr,none": 7.0},
                       {"acc_stderr,none": -0.1}, {"bits_per_byte,none": -1.0}, {"mystery,none": 1e308}):  # fmt: skip
            results = {**lm_eval_results(0.5), "results": {"demo_facts": {**entry, **change}}}
            answer = client.post("/api/results", json={"model": "small", "results": results})
            assert answer.status_code == 422, change
            assert "'demo_facts'" in answer.text
            assert "expected" in answer.text
            assert "/tmp" not in answer.text
        body = json.dumps({"model": "small", "results": lm_eval_results(0.5)}).replace("0.5", "1e999")
        assert client.post("/api/results", content=body, headers=JSON_TYPE).status_code == 422
    assert queue.store.runs() == []


def test_a_reported_row_changes_no_other_row(queue: SubmissionServer) -> None:
    """Whatever is reported, measured rows keep ranks, units, averages and baselines, and no board gets a column."""
    for seed in (1, 2):
        run_id = f"--model fake --model_args seed={seed} --tasks demo_facts,demo_orders --quiet".split()
        assert main(["run", *run_id, "--store", queue.store.url]) == 0
    board = replace(queue.site.board("demo"), name="pair", suite=suite_from({
        "name": "pair", "title": "Pair", "reproduced": True,
        "members": [{"task": "demo_facts", "metric": [""], "column": "Facts"},
                    {"task": "demo_orders", "metric": ["acc"], "column": "Ends"}],
    }))  # fmt: skip
    site = Site([board], StoredRuns(queue.store))
    actual = Site([], StoredRuns(queue.store))

    def state() -> object:
        rows = all_rows(site.table(board), View(), board.shown_columns)
        columns = {
            name: [column.key for column in actual.table(entry).columns] for name, entry in actual.boards.items()
        }
        sources = [(each.name, [column.key for column in each.table.columns]) for each in sources_of(site)]
        known = [(row.row, row.rank, row.best, row.worst, row.average) for row in rows if row.row.origin != "reported"]
        return known, site.table(board).columns, columns, sources

    before = state()
    whole = lm_eval_results(0.99)
    for number, results in enumerate((
        whole,
        {**whole, "results": {"demo_facts": {"grade,none": 55.0}}},
        {**whole, "results": {"demo_facts": {"acc,none": 1.0}, "demo_orders": {"acc,none": 1.0}},
         "n-samples": {"demo_facts": {"original": 10**9, "effective": 10**9}}},
        {**whole, "results": {"demo_facts": {"acc,none": 0.9}, "invented": {"acc,none": 1.0}},
         "n-shot": {"demo_facts": 7}},
    )):  # fmt: skip
        with queue.client(queue.token(f"eve{number}")) as eve:
            revised = {"model": ("small", "large")[number % 2], "precision": ("float32", "bfloat16")[number // 2]}
            answer = eve.post("/api/results", json={**revised, "results": results})
            assert answer.status_code == 201, answer.text
        assert state() == before, number
    listed = all_rows(site.table(board), View(), board.shown_columns)
    rows = [item for item in listed if item.row.origin == "reported"]
    assert len(rows) >= 3
    assert {result.rank for result in rows} == {None}
    origins = [item.row.origin for item in listed]
    assert origins == sorted(origins, key=("measured", "reported", "baseline").index)  # whatever their averages


def test_a_withdrawn_run_is_at_no_address(queue: SubmissionServer) -> None:
    """A submission that was withdrawn takes its run from the board and from the run's own pages."""
    submission = queue.submit(queue.token()).json()["submission"]
    assert main(["run", "--model", "fake", "--tasks", "demo_facts", "--quiet", "--store", queue.store.url]) == 0
    job = SubmissionQueue(queue.store).claim("", 60)
    assert job is not None
    (run,) = queue.store.runs()
    SubmissionQueue(queue.store).finish(job, run.run_id)
    paths = [f"/run/{run.run_id}", f"/run/{run.run_id[:8]}.json", f"/run/{run.run_id}/samples/demo_facts/0"]
    with queue.client(queue.token("boss", "moderator")) as boss:
        assert [boss.get(path).status_code for path in paths] == [200, 200, 200]
        assert boss.post(f"/submission/{submission}/withdraw", json={"why": "copied"}).status_code == 200
        assert [boss.get(path).status_code for path in paths] == [404, 404, 404]


def report(queue: SubmissionServer, model: str, network: str) -> httpx.Response:
    """Report a model as a reader with a fresh cookie."""
    with queue.client(**{"x-forwarded-for": network}) as reader:
        fields = {"token": form_token(reader.get("/flags").text), "model": model, "kind": "contamination",
                  "text": "it has seen the questions, surely"}  # fmt: skip
        return reader.post("/flags", data=fields)


def recommended(client: httpx.Client) -> list[str]:
    """Return the models that the server recommends for its own task."""
    result = client.get("/recommend.json?for=demo_facts").json()["recommendation"]["rankings"][0]["models"]
    return [each["model"] for each in result]


def test_reports_mark_a_model_once_a_moderator_upholds_them(queue: SubmissionServer) -> None:
    """Open reports are a link with their number; only an upheld one flags, filters and leaves out a model."""
    for seed in (1, 2):
        words = ["run", "--model", "fake", "--model_args", f"seed={seed}", "--tasks", "demo_facts", "--quiet"]
        assert main([*words, "--store", queue.store.url]) == 0
    for number in range(3):
        assert report(queue, "fake-random-1", f"198.51.100.{number}").status_code == 303
    with queue.client() as reader:
        page = reader.get("/board/demo").text
        assert ">3 reports</a>" in page
        assert "flagged</a>" not in page
        rows = reader.get("/board/demo.json").json()["rows"]
        assert [row["n_open_reports"] for row in rows if row["model"] == "fake-random-1"] == [3]
        assert not any(row["facts"].get("flagged") for row in rows)
        assert reader.get("/board/demo.json?hide=flagged").json()["n_matching"] == 2
        assert recommended(reader) == ["fake-random-2", "fake-random-1"]
    with queue.client(queue.token("boss", "moderator")) as boss:
        listed = [each["flag"] for each in boss.get("/flags.json?model=fake-random-1").json()["flags"]]
        assert boss.post("/flags/settle", json={"flag": [], "state": "upheld"}).status_code == 400
        assert boss.post("/flags/settle", json={"flag": [*listed, "nosuch"], "state": "upheld"}).status_code == 404
        assert boss.post("/flags/settle", json={"flag": listed[:2], "state": "rejected"}).json() == {"settled": 2}
        assert "flagged</a>" not in boss.get("/board/demo").text
        assert boss.post("/flags/settle", json={"flag": listed, "state": "upheld"}).json() == {"settled": 3}
        assert "flagged</a>" in boss.get("/board/demo").text
        assert boss.get("/board/demo.json?hide=flagged").json()["n_matching"] == 1
        assert recommended(boss) == ["fake-random-2"]
        assert [item["action"] for item in boss.get("/moderation.json").json()["log"]].count("flag upheld") == 3


def test_fresh_cookies_of_one_network_are_one_reporter(queue: SubmissionServer) -> None:
    """A network reports a model once, and twenty models a day; another network is not affected."""
    assert report(queue, "small", "2001:db8::1").status_code == 303
    again = report(queue, "small", "2001:db8::2")
    assert again.status_code == 400
    assert "reported" in again.text
    codes = [report(queue, f"org/m{number}", f"2001:db8::{number:x}").status_code for number in range(25)]
    assert codes == [303] * 18 + [429] * 7
    assert report(queue, "small", "2001:db8:0:1::1").status_code == 303
    reporters = {flag.reporter for flag in Moderation(queue.store).flags()}
    assert len(reporters) == 2


@pytest.mark.slow
def test_the_page_follows_the_queue_and_keeps_the_focus(queue: SubmissionServer, browser: Any) -> None:
    """A new row appears without a reload; the focus stays on the button that it was on, which then votes."""
    first = queue.submit(queue.token()).json()["submission"]
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{queue.url}/sign-in")
    page.fill("#account", queue.token("bob"))
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/queue")
    button = page.get_by_role("button", name="Vote for small")
    button.focus()
    page.evaluate("window.kept = true")
    second = queue.submit(queue.token(), model="large").json()["submission"]
    page.locator(f"#vote-{second}").wait_for(timeout=20_000)
    assert page.evaluate("window.kept") is True
    assert page.evaluate("document.activeElement.id") == f"vote-{first}"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/submission/{first}")
    votes = {name: SubmissionQueue(queue.store).submission(name).n_votes for name in (first, second)}
    assert votes == {first: 2, second: 1}  # a submitter has voted for his own
    context.close()
