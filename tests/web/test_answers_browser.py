"""Answers of models in a browser, on every page that shows them: Markdown, inert, and raw where one asks for it."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assaymark.arena.answer_files import ArenaPrompt, StoredAnswers
from assaymark.arena.ballots import Publishing
from assaymark.arena.battles import Arena
from assaymark.arena.rating_boards import Ratings
from assaymark.arena.routes.arena import arena_feature
from assaymark.arena.routes.studies import studies_feature
from assaymark.arena.studies.sessions import StudySessions, invitations, store_study
from assaymark.arena.studies.study_file import read_study, write_example
from assaymark.hosting.chat_routes import chat_feature
from assaymark.hosting.endpoints import read_endpoints
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.store import Store
from assaymark.web.app import create_app
from assaymark.web.secret import server_secret
from tests.arena.pages.live_endpoints import MODELS, endpoint_server
from tests.arena.pages.test_live_battles import LIMITS, live_arena
from tests.arena.stored_votes import NO_LIMITS
from tests.judges.answered import answered_run, questions_task
from tests.served import running

pytestmark = pytest.mark.slow

ANSWER = """Some **bold** words, <script>window.hit = 1</script>
<img src="https://example.com/a.png" onerror="window.hit=2">
[bad](javascript:window.hit=3) ![i](https://example.com/i.png) [good](https://example.com/page)

| left | right |
|------|------:|
| 1 | <svg onload="window.hit=4"> |

```python
print("<iframe src=https://example.com></iframe>")
```

The end, $x^2$."""

Shows = Callable[[Any, Path], AbstractContextManager[str]]  # leads a browser's page to the answer; gives the address


@contextmanager
def stored_battle(page: Any, folder: Path) -> Iterator[str]:
    """A battle of stored answers."""
    prompts = {"p": ArenaPrompt("p", "What is bold?", "made up")}
    with Store.open(str(folder / "s.sqlite")) as store:
        answers = StoredAnswers("made up", prompts, {name: {"p": f"{ANSWER} {name}"} for name in ("owl", "fox")})
        arena = Arena(store, answers, NO_LIMITS, Publishing(50, 1e9, 10), seed=1)
        with running(create_app([arena_feature(arena, Ratings(store))])) as url:
            page.goto(f"{url}/arena")
            page.get_by_role("button", name="Start a battle").click()
            page.wait_for_url("**/arena/battle/*")
            yield url


@contextmanager
def live_battle(page: Any, folder: Path) -> Iterator[str]:
    """A battle of models that answer with the question."""
    with live_arena(folder, replace(LIMITS, characters=2000)) as (url, _):
        page.goto(url)
        page.get_by_role("button", name="Start a battle").click()
        page.fill("#text", ANSWER)
        page.get_by_role("button", name="Ask both models").click()
        page.locator(".ballot").wait_for(timeout=30_000)
        yield url


@contextmanager
def study(page: Any, folder: Path) -> Iterator[str]:
    """The first comparison of a study, without attention checks."""
    path = write_example(folder)
    path.write_text(path.read_text().partition("checks:")[0])
    rows = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    (folder / "answers.jsonl").write_text(
        "".join(json.dumps({**row, "output": f"{ANSWER} {row['output']}"}) + "\n" for row in rows)
    )
    described = read_study(path)
    with Store.open(str(folder / "s.sqlite")) as store:
        store_study(store, described, server_secret(), 0.0)
        invitation = next(iter(invitations(store, described.study, server_secret()).values()))
        with running(create_app([studies_feature(StudySessions(store))])) as url:
            page.goto(url + invitation)
            page.get_by_role("checkbox").check()
            page.locator("main form button").first.click()
            page.get_by_role("heading", name="Which answer is better?").wait_for()
            yield url


@contextmanager
def chat(page: Any, folder: Path) -> Iterator[str]:
    """A chat with two models that answer with the question."""
    with endpoint_server() as upstream:
        endpoints = read_endpoints([f"{name}={upstream}#{name}" for name in MODELS])
        with running(create_app([chat_feature(endpoints)])) as url:
            page.goto(f"{url}/chat")
            page.select_option("select[name=second]", "walrus-slow")
            page.fill("#text", ANSWER)
            page.get_by_role("button", name="Ask", exact=True).click()
            page.locator(".answer .rendered").nth(1).wait_for(timeout=30_000)
            yield url


@contextmanager
def sample(page: Any, folder: Path) -> Iterator[str]:
    """A sample of a stored run whose model answers with the question."""
    place = folder / "s.sqlite"
    run = answered_run("echo", questions_task(folder, questions=[ANSWER]), place)
    with running(create_app([board_feature(Site([], StoredRuns(Store.open_to_read(str(place)))))])) as url:
        page.goto(f"{url}/run/{run}/samples/open_questions/0")
        yield url


@pytest.mark.parametrize("scripts", [True, False], ids=["script", "no script"])
@pytest.mark.parametrize("shows", [stored_battle, live_battle, study, chat, sample])
def test_an_answer_is_markdown_inert_and_raw_on_request(
    browser: Any, tmp_path: Path, shows: Shows, scripts: bool
) -> None:
    """Bold, table, code and formula are elements; nothing of a stranger's runs or loads; the switch needs no script."""
    context = browser.new_context(java_script_enabled=scripts)
    page = context.new_page()
    page.set_default_timeout(10_000)
    complaints: list[str] = []
    requested: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: requested.append(request.url))
    with shows(page, tmp_path) as url:
        rendered = page.locator(".rendered")
        n_answers = rendered.count()
        assert n_answers == (1 if shows is sample else 2)
        for part in ("strong:text-is('bold')", "td:text-is('1')", "pre.code span.nb", "math msup"):
            assert rendered.locator(part).count() == n_answers, part
        for part in ("script", "img", "svg", "iframe", "[onerror]", "[onload]", "[style]"):
            assert rendered.locator(part).count() == 0, part
        links = [link.get_attribute("href") for link in rendered.locator("a").all()]
        assert links == ["https://example.com/i.png", "https://example.com/page"] * n_answers  # an image is a link

        raw = page.locator(".raw")
        assert raw.count() == n_answers
        assert [raw.first.is_visible(), rendered.first.is_visible()] == [False, True]
        page.locator("#raw-text").check()
        assert [raw.first.is_visible(), rendered.first.is_visible()] == [True, False]
        for text in raw.all_inner_texts():
            assert "**bold** words, <script>window.hit = 1</script>" in text
            assert '| 1 | <svg onload="window.hit=4"> |' in text
            assert "\\x0d" not in text
        page.locator("#raw-text").uncheck()
        assert [raw.first.is_visible(), rendered.first.is_visible()] == [False, True]

        assert complaints == []
        assert [address for address in requested if not address.startswith(f"{url}/")] == []
        if scripts:
            assert page.evaluate("window.hit === undefined")
    context.close()
