"""Queues of annotations: who gets which item, what raters may say, how far they agree, and what pages refuse."""

import hashlib
import json
import re
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from assaymark.applications.live.annotation import agreement_of, rating_score, rubric_of
from assaymark.applications.live.annotation_log import AnnotationLog, AnnotationQueue
from assaymark.applications.live.dataset_log import DatasetLog
from assaymark.applications.live.links import signed_link
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.cli.main import main
from assaymark.errors import UnknownName, UsageError
from assaymark.statistics.agreement import cohen_kappa, krippendorff_alpha
from assaymark.store import Store
from tests.applications.live.live_traces import Live, conversation, trace_id
from tests.applications.live.serving_live import serving_live
from tests.applications.traces.sending import Receiver
from tests.cli.test_hostile_text import CORPUS


def key(number: int) -> bytes:
    """Return a trace's id as bytes."""
    return bytes.fromhex(trace_id(number))


def filled(live: Live, n_traces: int, *, rubric: str = "thumbs", n_raters: int = 1) -> AnnotationQueue:
    """Return a queue with traces 1 to n."""
    for number in range(1, n_traces + 1):
        live.ask(number)
    queue = AnnotationLog(live.store).add_queue(live.project, "review", rubric, n_raters)
    assert AnnotationLog(live.store).add_items(queue, [key(n) for n in range(1, n_traces + 1)], "all") == n_traces
    return queue


def rate(live: Live, queue: AnnotationQueue, rater: str, number: int, choice: str, **more: Any) -> None:
    """Store a rating."""
    score = rating_score(queue, key(number), choice, more.get("comment"), more.get("correction"))
    AnnotationLog(live.store).rate(queue, rater, score)


def test_items_go_to_as_many_raters_as_should(live: Live) -> None:
    """Each rater gets the first item that is free; two raters of each, none twice, and a skipped one goes to others."""
    queue = filled(live, 3, n_raters=2)
    log = AnnotationLog(live.store)

    def claimed(rater: str) -> int | None:
        item = log.claim(queue, rater, 60.0)
        return None if item is None else int(item.trace_id.hex(), 16)

    assert [claimed(rater) for rater in ("ada", "bob", "cy", "ada")] == [1, 1, 2, 1]
    rate(live, queue, "ada", 1, "up")
    assert claimed("ada") == 2
    assert claimed("dan") == 3  # both others are held by two
    log.skip(queue, "ada", key(2))
    assert claimed("ada") == 3
    rate(live, queue, "bob", 1, "down", comment="no")
    assert log.queue(live.project, "review").n_done == 1
    with pytest.raises(UsageError, match="2 others have rated"):
        rate(live, queue, "cy", 1, "up")
    rate(live, queue, "bob", 1, "up")
    assert {(each.rater, each.label) for each in log.ratings(queue)} == {("ada", "up"), ("bob", "up")}
    assert [(each.source, each.name, each.value, each.rater) for each in live.scores(1)] == [
        ("queue", "review", 1.0, "ada"),
        ("queue", "review", 1.0, "bob"),
    ]
    for rater in ("cy", "bob", "ada", "dan"):
        while (number := claimed(rater)) is not None:
            rate(live, queue, rater, number, "up")
    assert log.queue(live.project, "review").n_done == 3


def test_a_claim_that_has_expired_is_free(live: Live) -> None:
    """An item that its rater left is given to another."""
    queue = filled(live, 1)
    assert AnnotationLog(live.store).claim(queue, "ada", 60.0) is not None
    assert AnnotationLog(live.store).claim(queue, "bob", 60.0) is None
    assert AnnotationLog(live.store).claim(queue, "ada", -1.0) is not None
    assert AnnotationLog(live.store).claim(queue, "bob", 60.0) is not None


def claims_at_once(place: str) -> None:
    """Let eight raters of one queue claim and rate at once; each trace is rated by two, and by none twice."""
    with Live.open(place) as live:
        queue = filled(live, 20, n_raters=2)

        def work(rater: str) -> None:
            with Store.open(place) as store:
                while (item := AnnotationLog(store).claim(queue, rater, 60.0)) is not None:
                    AnnotationLog(store).rate(queue, rater, rating_score(queue, item.trace_id, "up", None, None))

        threads = [threading.Thread(target=work, args=(f"rater {n}",)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        result = AnnotationLog(live.store).queue(live.project, "review")
        assert (result.n_done, result.n_ratings) == (20, 40)


def test_raters_at_once(tmp_path: Path) -> None:
    """On SQLite."""
    claims_at_once(str(tmp_path / "live.sqlite"))


@pytest.mark.slow
def test_raters_at_once_on_a_server(postgres_url: str) -> None:
    """On PostgreSQL."""
    claims_at_once(postgres_url)


def test_agreement_is_that_of_the_statistics(live: Live) -> None:
    """Alpha and kappa are the coefficients of the same table: thumbs nominal, scales ordinal and quadratic."""
    thumbs = filled(live, 8, n_raters=2)
    said = {"ada": "uuddudud", "bob": "uudduduu"}
    for rater, marks in said.items():
        for number, mark in enumerate(marks, 1):
            rate(live, thumbs, rater, number, {"u": "up", "d": "down"}[mark])
    result = agreement_of(thumbs, AnnotationLog(live.store).ratings(thumbs))
    table = [list(said["ada"]), list(said["bob"])]
    assert result.alpha == krippendorff_alpha(table)
    assert result.kappa is not None
    assert result.kappa.value == pytest.approx(cohen_kappa(*table).value)
    assert "alpha" in result.line
    scale = AnnotationLog(live.store).add_queue(live.project, "scale", "1-5", 3)
    AnnotationLog(live.store).add_items(scale, [key(n) for n in range(1, 9)], "all")
    grades: dict[str, list[int | None]] = {"ada": [1, 2, 3, 4, 5, 1, 2, 3], "bob": [1, 2, 3, 4, 4, 2, None, 3]}
    for rater, entry in grades.items():
        for number, grade in enumerate(entry, 1):
            if grade is not None:
                rate(live, scale, rater, number, str(grade))
    result = agreement_of(scale, AnnotationLog(live.store).ratings(scale))
    assert result.alpha is not None
    assert result.alpha.value == pytest.approx(krippendorff_alpha(list(grades.values()), "ordinal").value)
    assert result.kappa is not None
    assert result.kappa.method == "quadraticly weighted kappa"


def test_agreement_of_nothing(live: Live) -> None:
    """Without two ratings of a trace, and with ratings that are all the same, no number is made up."""
    queue = filled(live, 2, n_raters=2)
    assert agreement_of(queue, []).alpha is None
    rate(live, queue, "ada", 1, "up")
    assert agreement_of(queue, AnnotationLog(live.store).ratings(queue)).line == "no trace has two ratings yet"
    rate(live, queue, "bob", 1, "up")
    assert "undefined" in agreement_of(queue, AnnotationLog(live.store).ratings(queue)).line


@pytest.mark.parametrize("rubric", ["", "good", "a,a", "5-1", "1-99", "a," * 30, "x" * 200 + ",b", "1-"])
def test_rubrics_that_are_none(rubric: str) -> None:
    """One label, labels twice, a scale downwards or with too many steps: refused in one line."""
    with pytest.raises(UsageError, match=r"rubric|scale"):
        rubric_of(rubric)


def test_another_projects_queue(live: Live) -> None:
    """A queue is known in its own project only, and takes only traces of it."""
    queue = filled(live, 1)
    TraceLog(live.store).add_project("other")
    other = TraceLog(live.store).project_id("other")
    with pytest.raises(UnknownName):
        AnnotationLog(live.store).queue(other, "review")
    theirs = AnnotationLog(live.store).add_queue(other, "review", "thumbs", 1)
    assert AnnotationLog(live.store).add_items(theirs, [key(1)], "stolen") == 0
    assert AnnotationLog(live.store).queue(live.project, "review").id == queue.id


def test_commands(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    """A queue is filled by a filter, a sample of it and names; a larger sample includes a smaller one."""
    for number in range(1, 31):
        live.ask(number, error="" if number % 2 else "failed")
    at = ["--store", live.place]
    assert main(["traces", "queue", "add", "failures", "--filter", "errors=yes", "--sample", "5", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out)["added"] == 5
    assert main(["traces", "queue", "add", "failures", "--filter", "errors=yes", "--sample", "8", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "queue": "failures", "rubric": "thumbs", "raters": 1, "added": 3, "traces": 8,
    }  # fmt: skip
    assert main(["traces", "queue", "add", "failures", trace_id(1), *at]) == 0
    assert main(["traces", "queue", "add", "failures", trace_id(1), "--rubric", "1-5", *at]) == 2
    assert "has the rubric thumbs" in capsys.readouterr().err
    assert main(["traces", "queue", "list", *at]) == 0
    assert "0 of 9" in capsys.readouterr().out
    assert main(["traces", "queue", "list", "--json", *at]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["traces"], listed["agreement"]["alpha"]) == (9, None)
    assert main(["traces", "queue", "remove", "failures", *at]) == 0
    assert main(["traces", "queue", "remove", "failures", *at]) == 2


# ---------------------------------------------------------------------------------------------- the page


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Receiver]:
    """Return a server with a queue of two traces, two raters of each."""
    with serving_live(tmp_path / "live.sqlite") as result:
        hostile = " ".join(CORPUS.values()).replace("\x00", "") + "<script>alert(1)</script>"
        result.send(*conversation(1, documents=("Rome is old.",)))
        result.send(*conversation(2, "What is <b>Oslo</b>?", hostile))
        queue = AnnotationLog(result.store).add_queue(result.project, "review", "good,wrong", 2)
        AnnotationLog(result.store).add_items(queue, [key(1), key(2)], "all")
        yield result


@contextmanager
def reading(served: Receiver) -> Iterator[httpx.Client]:
    """Give a client that showed the token in the form, as a browser does."""
    with httpx.Client(base_url=served.url, timeout=30, follow_redirects=True) as client:
        token = form_token(client.get("/traces/sign-in"))
        client.post("/traces/sign-in", data={"token": token, "key": served.token, "back": "/traces"})
        yield client


def form_token(page: httpx.Response) -> str:
    """Return the token of a page's forms."""
    return str(re.findall(r'name="token" value="(\w+)"', page.text)[0])


def test_a_rater_goes_through_a_queue(served: Receiver) -> None:
    """The page gives one trace after another with the rubric; what was said is on the trace's page."""
    with reading(served) as client:
        page = client.get("/traces/annotate")
        assert "0 of 2" in page.text
        data = {"token": form_token(page), "queue": "review", "action": "next", "rater": "Ada L."}
        page = client.post("/traces/annotate", data=data)
        for needed in ("What is Rome?", "Rome, thank you.", "Rome is old.", 'value="good"', 'value="wrong"'):
            assert needed in page.text, needed
        data = {"token": form_token(page), "queue": "review", "trace": trace_id(1), "rater": "Ada L.", "action": "rate"}
        typed = {"choice": "up", "comment": "a long thought", "correction": "<i>Italy"}
        refused = client.post("/traces/annotate", data={**data, **typed}).text
        assert "expected one of good, wrong" in refused
        assert all(f">{text}</textarea>" in refused for text in ("a long thought", "&lt;i&gt;Italy"))
        page = client.post("/traces/annotate", data={**data, "choice": "wrong", "comment": "no", "correction": "Italy"})
        assert "<b>1</b> rated by you" in page.text
        assert "<script>alert" not in page.text
        assert "\x1b" not in page.text
        assert "&lt;b&gt;Oslo" in page.text
        page = client.post("/traces/annotate", data={**data, "trace": trace_id(2), "action": "skip"})
        assert "Nothing is left for you in the queue review" in page.text
        result = client.get("/traces/annotate.json").json()
        assert result["queues"][0]["agreement"]["ratings"] == 1
        (score,) = client.get(f"/trace/{trace_id(1)}.json").json()["scores"]
        assert (score["label"], score["rater"], score["correction"]) == ("wrong", "Ada L.", "Italy")
        assert [each["trace_id"] for each in client.get("/traces.json?score=review<1").json()["traces"]] == []


@pytest.mark.parametrize("rater", ["Zoe\u0308 Łukasz", "Иван", "李雷", "a+b@example.org", "नीति", "אָדָם"])
def test_the_browser_keeps_any_name(served: Receiver, rater: str) -> None:
    """A name in any script rates, and the next trace is asked of the same rater without typing it again.

    It is one name however its accents were typed.
    """
    composed = unicodedata.normalize("NFC", rater)
    with reading(served) as client:
        data = {"token": form_token(client.get("/traces/annotate")), "queue": "review", "rater": rater}
        page = client.post("/traces/annotate", data={**data, "action": "next"})
        assert page.status_code == 200
        assert f'name="rater" value="{composed}"' in page.text
        done = {**data, "rater": "", "trace": trace_id(1), "choice": "good", "action": "rate"}
        assert "<b>1</b> rated by you" in client.post("/traces/annotate", data=done).text
    queue = AnnotationLog(served.store).queue(served.project, "review")
    assert [each.rater for each in AnnotationLog(served.store).ratings(queue)] == [composed]


def test_a_name_that_is_missing_costs_no_words(served: Receiver) -> None:
    """Whoever opens a trace by its address types a name there; what was said stays in the form until then."""
    with reading(served) as client:
        page = client.get(f"/traces/annotate?queue=review&trace={trace_id(1)}")
        assert '<input id="rater" name="rater" required' in page.text
        data = {"token": form_token(page), "queue": "review", "trace": trace_id(1), "action": "rate"}
        page = client.post("/traces/annotate", data={**data, "choice": "wrong", "comment": "a long thought"})
        assert page.status_code == 400
        assert "Type the name" in page.text
        assert ">a long thought</textarea>" in page.text
        assert 'value="wrong" checked' in page.text


def test_what_the_page_refuses(served: Receiver) -> None:
    """No token, another project's, a write-only one, no form token, another site, unknown queues and traces."""
    data = {"queue": "review", "action": "next", "rater": "eve"}
    place = f"{served.url}/traces/annotate"
    assert httpx.get(place).status_code == 303
    assert httpx.get(f"{place}.json").status_code == 401
    assert httpx.post(place, data=data).status_code == 403
    writing = TraceLog(served.store).add_token("bot", "write")
    other = TraceLog(served.store).add_project("other")
    for token, status in ((writing, 403), ("asm_wrong", 401), (other, 404)):
        assert httpx.post(place, data=data, headers={"authorization": f"Bearer {token}"}).status_code == status
    with reading(served) as client:
        assert client.post("/traces/annotate", data=data).status_code == 403  # no form token
        token = form_token(client.get("/traces/annotate"))
        good = {**data, "token": token}
        assert client.post("/traces/annotate", data=good, headers={"sec-fetch-site": "cross-site"}).status_code == 403
        for changed, status in (
            ({"queue": "no"}, 404),
            ({"action": "drop"}, 400),
            ({"action": "rate", "trace": "0" * 32}, 404),
            ({"action": "rate", "trace": trace_id(9)}, 404),
            ({"rater": "<b>eve</b>"}, 400),
            ({"rater": "e" * 65}, 400),
            *(
                ({"rater": name}, 400)
                for name in ("e\u200bve", "e\u202eve", "e\x07ve", "e\ufe0fve", "\u3164", "\u0308e")
            ),
            ({"action": "rate", "trace": trace_id(1), "choice": "good", "comment": "x" * 10_001}, 400),
        ):
            assert client.post("/traces/annotate", data={**good, **changed}).status_code == status, changed
    queue = AnnotationLog(served.store).queue(served.project, "review")
    assert AnnotationLog(served.store).ratings(queue) == []


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 380)])
def test_in_a_browser(served: Receiver, browser: Any, scheme: str, width: int) -> None:
    """A browser rates a trace and makes it a row; nothing overflows, and nothing is complained of."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    overflows = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    page.goto(f"{served.url}/traces/annotate")
    page.get_by_label("Token").fill(served.token)
    page.get_by_role("button", name="Read").click()
    page.goto(f"{served.url}/traces/annotate")
    assert not page.evaluate(overflows)
    page.get_by_label("You rate as").fill("ada")
    with page.expect_navigation():
        page.get_by_role("button", name="Rate review").click()
    page.wait_for_url("**/annotate?queue=review*")
    context.clear_cookies(name="rater")
    page.reload()
    page.get_by_label("You rate as").press_sequentially("sunna 1")  # its letters are no keys of buttons
    page.locator("h1").click()
    page.keyboard.press("2")
    assert page.get_by_label("wrong").is_checked()
    assert page.get_by_label("You rate as").input_value() == "sunna 1"
    page.get_by_label("What the answer should have been").fill("the capital of Italy")
    assert not page.evaluate(overflows)
    page.get_by_role("button", name="Save, next").click()
    page.goto(f"{served.url}/trace/{trace_id(1)}")
    page.get_by_text("Add to a data set").click()
    page.get_by_label("Data set", exact=True).fill("regressions")
    assert not page.evaluate(overflows)
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text("It is a row of regressions now.").wait_for()
    context.close()
    (row,) = DatasetLog(served.store).rows(served.project, "regressions")
    assert isinstance(row.content, dict)
    assert row.content["expected"] == "the capital of Italy"
    assert complaints == []


@pytest.mark.slow
def test_axe_finds_nothing(served: Receiver, browser: Any, axe: Callable[[Any], list[str]]) -> None:
    """The form, the queues, a trace to rate and the form of rows have no fault that axe-core knows."""
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    key_ = hashlib.sha256(served.token.encode()).digest()
    results = {}

    page.goto(signed_link(served.url, trace_id(1), key_))
    results["form"] = axe(page)
    page.goto(f"{served.url}/traces/annotate")
    page.get_by_label("Token").fill(served.token)
    page.get_by_role("button", name="Read").click()
    page.goto(f"{served.url}/traces/annotate")
    results["queues"] = axe(page)
    page.get_by_label("You rate as").fill("ada")
    with page.expect_navigation():
        page.get_by_role("button", name="Rate review").click()
    results["annotate"] = axe(page)
    page.goto(f"{served.url}/trace/{trace_id(1)}")
    page.get_by_text("Add to a data set").click()
    results["row"] = axe(page)
    context.close()
    assert results == {"form": [], "queues": [], "annotate": [], "row": []}
