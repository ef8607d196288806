"""The arena over a real server: anonymity before the vote, one vote per battle, nothing lost when it is killed."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from assaymark.arena.answer_files import answers_of_files
from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.ballots import Publishing, Refused, VoteLimits, Voter
from assaymark.arena.battles import Arena
from assaymark.arena.rating_boards import Ratings
from assaymark.arena.routes.arena import arena_feature
from assaymark.randomness import generator_for
from assaymark.store import Store
from assaymark.web.app import create_app
from tests.arena.pages.arena_voters import ApiVoter, cast_votes
from tests.arena.stored_votes import NO_LIMITS, answers, cast, spoken_arena
from tests.served import running

ALPACA = Path(__file__).resolve().parents[4] / "shared/data/tatsu-lab/alpaca_eval/_model_outputs"


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    """Return an arena over made-up answers."""
    with Store.open(str(tmp_path / "s.sqlite")) as store:
        yield Arena(store, answers(), NO_LIMITS, Publishing(10, 1e9, 5), seed=1)


@pytest.fixture
def url(arena: Arena) -> Iterator[str]:
    """Serve it."""
    with running(create_app([arena_feature(arena, Ratings(arena.store))])) as result:
        yield result


def crawl(client: httpx.Client, start: str) -> dict[str, httpx.Response]:
    """Return every page that links lead to from a page, with their JSON twins, by path."""
    results: dict[str, httpx.Response] = {}
    waiting = [start, "/", "/boards", "/arena", "/arena/ratings", "/arena/ratings?style=1", "/compare", "/recommend"]
    while waiting:
        path = waiting.pop()
        if path in results or not path.startswith("/") or path.startswith("/theme"):
            continue
        results[path] = client.get(path, follow_redirects=True)
        plain = path.partition("?")[0]
        if not plain.endswith(".json") and not plain.startswith("/static"):
            waiting.append(path.replace(plain, f"{plain}.json", 1))
        if results[path].headers.get("content-type", "").startswith("text/html"):
            waiting += [
                link.replace("&amp;", "&") for link in re.findall(r'(?:href|action)="([^"]+)"', results[path].text)
            ]
    return results


def test_before_the_vote_nothing_joins_a_battle_to_a_model(arena: Arena, url: str) -> None:
    """Every page, twin, header and cookie in the middle of a battle is free of its models, or equal without it."""
    cast_votes(url, 12, lambda _: "a")
    with ApiVoter(url) as voter, httpx.Client(base_url=url) as outsider:
        before = {path: page.text for path, page in crawl(outsider, "/arena").items()}
        battle = voter.begin()
        stored = ArenaLog(arena.store).battle(battle["battle"])
        assert stored is not None
        pages = crawl(voter.client, f"/arena/battle/{battle['battle']}")
        assert len(pages) > 10
        own = {path: page for path, page in pages.items() if battle["battle"] in path}
        assert sorted(page.status_code for page in own.values()) == [
            200,
            200,
            404,
            404,
            405,
            405,
        ]  # GET answers no form
        for page in own.values():
            said = page.text + str(page.headers) + str(dict(voter.client.cookies))
            for name in (*arena.source.models, arena.source.name, stored.voter):
                assert not re.search(rf"\b{re.escape(name)}", said), f"{name} in {page.url}"
        after = {path: page.text for path, page in crawl(outsider, "/arena").items()}
        hide = re.compile(r'name="token" value="\w+"')
        assert {path: hide.sub("", text) for path, text in before.items()} == {
            path: hide.sub("", text) for path, text in after.items()
        }
        assert set(battle) == {"battle", "state", "prompt", "answer_a", "answer_b"}
        for path in own:
            assert outsider.get(path).status_code in {404, 405}
        voted = voter.vote(battle["battle"], "b").json()
        assert (voted["model_a"], voted["model_b"]) == (stored.model_a, stored.model_b)
        assert crawl(outsider, "/arena")["/arena/ratings.json"].text == after["/arena/ratings.json"]


def test_pages_of_a_battle_are_not_cached(url: str) -> None:
    """A shared cache stores neither an open battle nor the names of a voted one."""
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        for path in ("/arena", f"/arena/battle/{battle}", f"/arena/battle/{battle}.json"):
            assert voter.client.get(path).headers["cache-control"] == "no-store"


def test_a_skipped_battle_is_counted_and_never_drawn_again(arena: Arena, url: str) -> None:
    """Skipping opens another battle, twice in two windows only one; a vote ends it, and skips reach their limit."""
    with ApiVoter(url) as voter:
        first = voter.begin()["battle"]
        second = voter.post(f"/arena/battle/{first}/skip").json()["battle"]
        assert second != first
        assert voter.post(f"/arena/battle/{first}/skip").json()["battle"] == second
        assert voter.begin()["battle"] == second
        assert ArenaLog(arena.store).n_skipped() == 1
        assert voter.vote(second, "a").status_code == 200
        assert voter.post(f"/arena/battle/{second}/skip").status_code == 400
        assert voter.begin()["battle"] not in {first, second}
        page = voter.client.post(f"/arena/battle/{first}/skip", data={"token": voter.token}, follow_redirects=True)
        assert 'data-key="s"' in page.text
    with ApiVoter(url) as other:
        assert other.post(f"/arena/battle/{first}/skip").status_code == 404
    assert ArenaLog(arena.store).n_skipped() == 1
    few = Arena(arena.store, arena.source, VoteLimits(0.0, unvoted_per_address=3), seed=1)
    someone = Voter("skips", "net")
    token = few.begin(someone).token
    for _ in range(2):
        token = few.skip(someone, token).token
    with pytest.raises(Refused, match="have no vote"):
        few.skip(someone, token)


def test_a_request_without_a_cookie_is_no_voter(arena: Arena, url: str) -> None:
    """A program's `Authorization` header excuses it from the form's token, not from being recognised."""
    header = {"authorization": "Bearer x"}
    for _ in range(3):
        assert httpx.post(f"{url}/arena/battles", json={}, headers=header).status_code == 403
    assert ArenaLog(arena.store).activity("", "", 0.0).battles_of_origin == 0
    with httpx.Client(base_url=url, headers=header) as program:
        token = re.findall(r'name="token" value="(\w+)"', program.get("/arena").text)[0]
        first = program.post("/arena/battles", json={}, headers={"x-form-token": token})
        battle = first.json()["battle"]
        voted = program.post(f"/arena/battle/{battle}/vote", json={"choice": "a"})
        assert voted.status_code == 200
        program.cookies.clear()
        assert program.post(f"/arena/battle/{battle}/vote", json={"choice": "a"}).status_code == 403


def test_a_network_with_fresh_cookies_has_the_pause_of_one_voter(arena: Arena) -> None:
    """Cookies cost nothing: the second of two fresh ones must wait after the first one's vote, over HTTP as well."""
    slow = Arena(arena.store, arena.source, VoteLimits(), arena.publishing, seed=2)
    with running(create_app([arena_feature(slow, Ratings(arena.store))])) as url:
        codes = []
        for _ in range(3):
            with ApiVoter(url) as voter:
                codes.append(voter.vote(voter.begin()["battle"], "a").status_code)
    assert codes == [200, 429, 429]


def test_two_tabs_give_one_vote(arena: Arena, url: str) -> None:
    """Of eight simultaneous votes with keys of their own one is stored; the others get 409 and change nothing."""
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        statuses: list[int] = []

        def click(number: int) -> None:
            statuses.append(voter.vote(battle, "ab"[number % 2], f"tab {number}").status_code)

        threads = [threading.Thread(target=click, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(statuses) == [200, *[409] * 7]
    assert ArenaLog(arena.store).head().sequence == 1


def test_a_replayed_vote_counts_once(arena: Arena, url: str) -> None:
    """The same vote with the same key is answered alike; the key with another choice is refused."""
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        first, second = voter.vote(battle, "a", "k"), voter.vote(battle, "a", "k")
        assert (first.status_code, second.status_code) == (200, 200)
        assert first.json() == second.json()
        assert voter.vote(battle, "b", "k").status_code == 400
    assert ArenaLog(arena.store).head().sequence == 1


def test_forms_work_without_javascript(arena: Arena, url: str) -> None:
    """Begin, vote and names by plain forms and redirects."""
    with httpx.Client(base_url=url, follow_redirects=True) as client:
        page = client.get("/arena").text
        token = re.search(r'name="token" value="(\w+)"', page)
        assert token is not None
        response = client.post("/arena/battles", data={"token": token[1]})
        assert response.url.path.startswith("/arena/battle/")
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)"', response.text))
        voted = client.post(f"{response.url.path}/vote", data={**fields, "choice": "both_bad", "mark_a": "poor"})
        assert voted.status_code == 200
        assert "Both are bad" in voted.text
        (vote,) = ArenaLog(arena.store).votes()
        assert (vote.choice, vote.mark_a, vote.mark_b) == ("both_bad", "poor", None)
        assert f"A was <b>{vote.model_a}</b>" in voted.text


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"choice": "c"}, 400), ({}, 400), ({"choice": "a", "mark_a": "good"}, 400), ({"choice": 3}, 400),
     ({"choice": "a", "key": "k" * 65}, 400)],
)  # fmt: skip
def test_votes_that_are_none_are_refused(arena: Arena, url: str, fields: dict[str, object], status: int) -> None:
    """With one line and nothing stored."""
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        answer = voter.post(f"/arena/battle/{battle}/vote", **fields)
        assert answer.status_code == status
        assert "Traceback" not in answer.text
        assert voter.post("/arena/battle/none/vote", choice="a").status_code == 404
    assert ArenaLog(arena.store).head().sequence == 0


def test_votes_from_other_sites_are_refused(arena: Arena, url: str) -> None:
    """A form on another site cannot vote, nor a request without the token."""
    with ApiVoter(url) as voter:
        path = f"/arena/battle/{voter.begin()['battle']}/vote"
        foreign = {"origin": "https://evil.example", "x-form-token": voter.token}
        assert voter.client.post(path, json={"choice": "a"}, headers=foreign).status_code == 403
        assert voter.client.post(path, json={"choice": "a"}).status_code == 403
    assert ArenaLog(arena.store).head().sequence == 0


@contextmanager
def served_by_a_process(folder: Path, port: int, answers_file: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `assaymark arena serve` as a process of its own until the block ends."""
    words = ["arena", "serve", "--answers", str(answers_file), "--store", str(folder / "s.sqlite"), "--port", str(port)]
    limits = ["--cooldown", "0", "--address_votes_per_day", "1000000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "assaymark", *words, *limits],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "ASSAYMARK_HOME": str(folder)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert "Arena (" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return int(result.getsockname()[1])


def write_answers(path: Path) -> Path:
    """Write answers of three models."""
    import json

    rows = [
        {"instruction": f"Prompt {n}?", "output": f"{word} {n}", "generator": name}
        for n in range(30)
        for name, word in (("owl", "one"), ("fox", "two"), ("hen", "three"))
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.slow
def test_a_killed_server_loses_no_vote_and_counts_none_twice(tmp_path: Path) -> None:
    """Voters repeat what was not acknowledged while the server is killed with SIGKILL: each vote is stored once."""
    port, file = free_port(), write_answers(tmp_path / "answers.jsonl")
    url, stop = f"http://127.0.0.1:{port}", threading.Event()
    acknowledged: dict[str, str] = {}
    lock = threading.Lock()

    def voters(name: int) -> None:
        generator = generator_for("killed", name)
        while not stop.is_set():
            try:
                vote_a_while(url, generator, acknowledged, lock, stop)
            except (httpx.TransportError, AssertionError):
                time.sleep(0.1)

    threads = [threading.Thread(target=voters, args=(name,)) for name in range(3)]
    deadline = time.monotonic() + 600
    for n in (80, 160, 240):
        with served_by_a_process(tmp_path, port, file) as process:
            if not threads[0].is_alive():
                for thread in threads:
                    thread.start()
            while len(acknowledged) < n:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
    stop.set()
    for thread in threads:
        thread.join()
    with Store.open(str(tmp_path / "s.sqlite")) as store:
        votes = {vote.battle: vote.choice for vote in ArenaLog(store).votes()}
        assert ArenaLog(store).head().sequence == len(votes)
        assert ArenaLog(store).problems() == []
    assert {battle: votes[battle] for battle in acknowledged} == acknowledged
    assert len(votes) - len(acknowledged) <= 9  # stored, but killed before the answer: one of each voter and kill


def vote_a_while(
    url: str, generator: object, acknowledged: dict[str, str], lock: threading.Lock, stop: threading.Event
) -> None:
    """Vote until the server goes away."""
    with ApiVoter(url) as voter:
        for _ in range(50):
            if stop.is_set():
                return
            battle = voter.begin()["battle"]
            choice = ("a", "b", "tie", "both_bad")[int(generator.integers(4))]  # type: ignore[attr-defined]
            for _ in range(2):  # the second time as a client that did not see the answer
                assert voter.vote(battle, choice).status_code == 200
            with lock:
                acknowledged[battle] = choice


def test_the_ratings_can_be_limited_to_a_language(tmp_path: Path) -> None:
    """Links for each language with its votes, beside other settings; the JSON counts the same; a wrong one is said."""
    spoken = spoken_arena(tmp_path / "s.sqlite")
    cast(spoken, 200)
    with spoken.store, running(create_app([arena_feature(spoken, Ratings(spoken.store))])) as address:
        few = httpx.get(f"{address}/arena/ratings", timeout=60).text
    assert "language=French" not in few  # fewer than 100 votes
    with spoken.store, running(create_app([arena_feature(spoken, Ratings(spoken.store, 20))])) as address:
        page = httpx.get(f"{address}/arena/ratings?style=1", timeout=60).text
        french = httpx.get(f"{address}/arena/ratings?language=French", timeout=60).text
        twin = httpx.get(f"{address}/arena/ratings.json?language=French", timeout=60).json()
        wrong = httpx.get(f"{address}/arena/ratings?language=%3Cb%3E", timeout=60).text
    n_french = twin["languages"]["French"]
    assert (twin["language"], twin["n_votes"]) == ("French", n_french)
    assert f'href="/arena/ratings?style=1&amp;language=French">French <i>{n_french}</i>' in page
    assert f'aria-current="true">French <i>{n_french}</i>' in french
    assert f"{n_french} votes are on prompts in French: with fewer than 500 most ranks stay open" in french
    assert "no published vote is on a prompt in &lt;b&gt;" in wrong


def test_models_are_found_by_name_and_maker(arena: Arena) -> None:
    """Only their rows, ranks and moments are shown, at the places that they have among all; other settings stay."""
    cast(arena, 200)
    ratings = Ratings(arena.store, 20, makers={"owl": "Night & Co., MIT", "eel": "Sea, proprietary"})
    with running(create_app([arena_feature(arena, ratings)])) as url:
        every, found = (httpx.get(f"{url}/arena/ratings{query}", timeout=60).text
                        for query in ("", "?category=even&q=NIGHT+hen"))  # fmt: skip
        by_name = httpx.get(f"{url}/arena/ratings?q=hen", timeout=60).text
        twin = httpx.get(f"{url}/arena/ratings.json", timeout=60).json()
    assert "<small>Night &amp; Co., MIT</small>" in every
    assert "Categories and languages with fewer than 20 votes are not offered" in every
    assert sorted(re.findall(r">(Even|Odd) <i>", every)) == ["Even", "Odd"]
    assert set(re.findall(r'<th scope="row">(\w{3})[< ]', found)) == {"owl", "hen"}
    assert 'name="category" value="even"' in found
    assert 'href="/arena/ratings?q=NIGHT+hen">all</a>' in found
    assert "Ranks by category" not in found
    ranks = by_name.partition("Ranks by category")[2].partition("<figure")[0]
    assert ("hen" in ranks, "owl" in ranks, "Even" in ranks) == (True, False, True)
    assert {part["name"] for part in twin["parts"]} == {"even", "odd"}
    assert twin["makers"]["eel"] == "Sea, proprietary"


@pytest.mark.slow
def test_200_votes_over_ten_real_models(tmp_path: Path) -> None:
    """Through the pages, by voters who prefer the longer answer: all votes are stored, and every model is rated."""
    if not ALPACA.is_dir():
        pytest.skip("the answers of AlpacaEval are not on this machine")
    source, notes = answers_of_files([ALPACA])
    assert (len(source.models), "the name of a model" in notes[0]) == (10, True)
    with Store.open(str(tmp_path / "s.sqlite")) as store:
        arena = Arena(store, source, NO_LIMITS, Publishing(100, 1e9, 10), seed=1)
        with running(create_app([arena_feature(arena, Ratings(store))])) as url:
            cast = cast_votes(url, 200, lambda one: "a" if len(one["answer_a"]) > len(one["answer_b"]) else "b")
            page = httpx.get(f"{url}/arena/ratings.json", timeout=60).json()
            result = httpx.get(f"{url}/arena/ratings", timeout=60).text
        assert {vote.battle: vote.choice for vote in ArenaLog(store).votes()} == cast
        assert ArenaLog(store).problems() == []
    assert page["n_votes"] == 200
    assert sum(each["n_votes"] for each in page["models"]) == 400
    assert {item["model"] for item in page["models"]} == set(source.models)
    best = [one["rating"]["p_best"] for one in page["models"]]
    assert sum(best) == pytest.approx(1.0, abs=1e-6)
    assert f'<td class="num">{100 * max(best):.0f}%</td>' in result
