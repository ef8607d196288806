"""Live battles on a real server over endpoints on loopback: streams, votes, names only afterwards, limits, failures."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.ballots import Publishing
from assaymark.arena.cadence import Cadence
from assaymark.arena.conversations import erase_battle
from assaymark.arena.live_battles import LiveArena, LiveLimits
from assaymark.arena.rating_boards import Ratings
from assaymark.arena.routes.live_battles import live_feature
from assaymark.arena.vote_files import votes_in
from assaymark.arena.votes import published_row
from assaymark.datasets.rows import Rows
from assaymark.hosting.endpoints import read_endpoints
from assaymark.store import Store
from assaymark.web.app import create_app
from assaymark.web.secret import server_secret
from tests.arena.pages.arena_voters import ApiVoter
from tests.arena.pages.live_endpoints import MODELS, Recorded, answer_of, endpoint_server
from tests.arena.pages.test_arena import crawl
from tests.arena.stored_votes import NO_LIMITS
from tests.served import running

CHUNK = 15
LIMITS = LiveLimits(turns=3, characters=200, seconds=20, regenerations=1)
SECRETS = (*MODELS, "walrus", "4711", "31337", "fp_", "sk-secret", "finish_reason")


def no_moderation(messages: Sequence[Mapping[str, str]]) -> str | None:
    """Refuse what contains a word, in a question or an answer."""
    if "forbidden" in messages[-1]["content"]:
        return "this is not allowed here"
    return "odd answer" if messages[-1]["content"].count("unspeakable") and messages[-1]["role"] != "user" else None


@contextmanager
def live_arena(
    folder: Path, limits: LiveLimits = LIMITS, moderate: Callable[..., str | None] | None = None
) -> Iterator[tuple[str, LiveArena]]:
    """Serve live battles of two models."""
    with endpoint_server() as upstream, Store.open(str(folder / "s.sqlite"), hidden_for="a test") as store:
        endpoints = read_endpoints([f"{name}={upstream}#{name}" for name in MODELS])
        arena = LiveArena(
            store, list(MODELS), server_secret(), limits, NO_LIMITS, Publishing(5, 1e9, 2),
            Cadence(0.02, CHUNK, 3 * CHUNK, 0.05), seed=1,
        )  # fmt: skip
        part = live_feature(arena, endpoints, Ratings(store), moderate)
        with running(create_app([part])) as url:
            yield url, arena


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder that is the home too."""
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Iterator[tuple[str, LiveArena]]:
    """Serve without moderation."""
    with live_arena(folder) as result:
        yield result


def ask(voter: ApiVoter, battle: str, text: str) -> list[tuple[str, dict[str, str]]]:
    """Ask, and return the events until both have answered."""
    answer = voter.post(f"/arena/battle/{battle}/ask", text=text)
    assert answer.status_code == 200, answer.text
    return followed(voter, battle)


def followed(voter: ApiVoter, battle: str) -> list[tuple[str, dict[str, str]]]:
    """Return the events of the answers in progress."""
    result, kind = [], ""
    with voter.client.stream("GET", f"/arena/battle/{battle}/events") as stream:
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                result.append((kind, json.loads(value)))
    return result


def state_of(voter: ApiVoter, battle: str) -> dict[str, Any]:
    """Return the JSON twin."""
    result: dict[str, Any] = voter.client.get(f"/arena/battle/{battle}.json").json()
    return result


def model_of(text: str) -> str:
    """Return which model wrote an answer."""
    return "walrus-quick" if "sea" in text else "walrus-slow"


def test_from_the_question_to_the_names(served: tuple[str, LiveArena], folder: Path) -> None:
    """Both sides stream, the vote comes after both, names come with it, and all of it is stored as hidden."""
    url, arena = served
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        assert voter.vote(battle, "a").status_code == 400
        voter.post(f"/arena/battle/{battle}/ask", text="Where is the ice?")
        early = voter.vote(battle, "a")
        assert (early.status_code, "still being answered" in early.text) == (400, True)
        events = followed(voter, battle)
        assert [kind for kind, _ in events] == [*["piece"] * (len(events) - 1), "end"]
        sides = ["".join(data[side] for kind, data in events if kind == "piece").strip() for side in "ab"]
        state = state_of(voter, battle)
        (turn,) = state["turns"]
        assert [turn["answer_a"], turn["answer_b"]] == sides
        assert {"model_a", "choice"} & state.keys() == set()
        voted = voter.vote(battle, "b").json()
        assert [voted["model_a"], voted["model_b"]] == [model_of(text) for text in sides]
        assert (voted["choice"], voted["is_counted"]) == ("b", True)
        assert state_of(voter, battle) == voted
    (vote,) = ArenaLog(arena.store).votes()
    assert (vote.model_a, vote.mode, vote.source) == (voted["model_a"], "anonymous", "live")
    assert ArenaLog(arena.store).problems() == []
    with Store.open(str(folder / "s.sqlite")) as public:
        assert public.runs() == []
    with Store.open(str(folder / "s.sqlite"), hidden_for="a test") as all_of_it:
        runs = all_of_it.runs()
        assert sorted(run.plan.model.name for run in runs) == sorted(MODELS)
        for run in runs:
            (sample,) = all_of_it.samples(run.run_id, "arena_battle")
            assert sample.request.messages[0].text == "Where is the ice?"
            assert model_of(sample.outputs[0].text or "") == run.plan.model.name
        assert all_of_it.verify() == []


def test_both_sides_have_one_cadence(served: tuple[str, LiveArena]) -> None:
    """Each event has a chunk of both sides, of multiples of one size, whichever model is slow and however it writes."""
    url, _ = served
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        pieces = [data for kind, data in ask(voter, battle, "Where is the ice?") if kind == "piece"]
        assert len(pieces) > 8
        shorter = min(sum(len(piece[side]) for piece in pieces) for side in "ab")
        seen = 0
        for each in pieces:
            assert set(each) == {"a", "b"}
            size = max(len(each["a"]), len(each["b"]))
            if seen + size < shorter:
                assert len(each["a"]) == len(each["b"])
                assert size % CHUNK == 0
            seen += size


def test_in_the_middle_of_a_battle_nothing_names_a_model(served: tuple[str, LiveArena]) -> None:
    """Every page, twin, event, header and cookie, while answers stream and after them; others see no change at all."""
    url, arena = served
    with ApiVoter(url) as voter, httpx.Client(base_url=url) as outsider:
        first = voter.begin()["battle"]
        ask(voter, first, "Something")
        voter.vote(first, "a")
        before = {path: page.text for path, page in crawl(outsider, "/arena").items()}
        battle = voter.begin()["battle"]
        voter.post(f"/arena/battle/{battle}/ask", text="Where is the ice?")
        raw = read_stream(voter, battle)
        streaming = {path: voter.client.get(f"/arena/battle/{battle}{path}") for path in ("", ".json")}
        assert "data-events" in streaming[""].text
        crawl(voter.client, f"/arena/battle/{battle}")
        while state_of(voter, battle)["state"] == "answering":
            time.sleep(0.05)
        answered = crawl(voter.client, f"/arena/battle/{battle}")
        stored = arena.battle(next(iter(arena._battles.values())).voter, battle)
        said = [raw, str(dict(voter.client.cookies))]
        own = [page for path, page in answered.items() if battle in path]
        assert sorted({page.status_code for page in own}) == [200, 404, 405]  # GET does not answer a form
        said += [page.text + str(page.headers) for page in (*own, *streaming.values())]
        for name in (*SECRETS, stored.voter.voter, stored.voter.origin[:16]):
            assert not any(re.search(rf"\b{re.escape(name)}", text) for text in said), name
        hide = re.compile(r'name="token" value="\w+"')
        after = {path: hide.sub("", page.text) for path, page in crawl(outsider, "/arena").items()}
        assert {path: hide.sub("", text) for path, text in before.items()} == after
        for path in (f"/arena/battle/{battle}", f"/arena/battle/{battle}.json", f"/arena/battle/{battle}/events"):
            assert outsider.get(path).status_code == 404


def read_stream(voter: ApiVoter, battle: str) -> str:
    """Return the bytes of the first events and the headers."""
    with voter.client.stream("GET", f"/arena/battle/{battle}/events") as stream:
        text = str(stream.headers)
        for line in stream.iter_lines():
            text += line
            if len(text) > 600:
                break
    return text


@pytest.mark.slow
def test_several_turns_have_each_sides_own_history(served: tuple[str, LiveArena]) -> None:
    """The second question is sent with each model's own first answer; regenerating replaces both last answers."""
    url, arena = served
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        ask(voter, battle, "First?")
        ask(voter, battle, "Second?")
        for asked in Recorded.asked[2:]:
            roles = [each["role"] for each in asked["messages"]]
            assert roles == ["user", "assistant", "user"]
            assert asked["messages"][1]["content"] == answer_of(asked["model"], "First?", 1).strip()
            assert (asked["temperature"], asked["max_tokens"]) == (0.7, 512)
        assert voter.post(f"/arena/battle/{battle}/regenerate").status_code == 200
        followed(voter, battle)
        assert len(Recorded.asked) == 6
        state = state_of(voter, battle)
        assert [turn["question"] for turn in state["turns"]] == ["First?", "Second?"]
        assert state["may_regenerate"] is False
        assert voter.post(f"/arena/battle/{battle}/regenerate").status_code == 400
        ask(voter, battle, "Third?")
        assert voter.post(f"/arena/battle/{battle}/ask", text="Fourth?").status_code == 400
        before = state_of(voter, battle)["turns"]
        assert voter.vote(battle, "tie").status_code == 200
        assert state_of(voter, battle)["turns"] == before  # three turns in their order, from the store
        page = voter.client.get(f"/arena/battle/{battle}").text
        assert page.index("Second?") < page.index('aria-label="Question 3"')
    stored = {len(list(arena.store.samples(run.run_id, "arena_battle"))) for run in arena.store.runs()}
    assert stored == {3}


def test_a_battle_is_skipped_without_names(served: tuple[str, LiveArena]) -> None:
    """It ends without a vote and is counted; the next one is another, and the skipped one says so.

    Where the store cannot be written, the battle stays open.
    """
    url, arena = served
    refuse = "CREATE TRIGGER refuse BEFORE INSERT ON battle_skips BEGIN SELECT RAISE(FAIL, 'refused'); END"
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        page = voter.client.get(f"/arena/battle/{battle}").text
        assert page.count('name="text" value="') == 4  # suggested questions
        ask(voter, battle, "First?")
        with arena.store.database.writing() as connection:
            connection.exec_driver_sql(refuse)
        assert voter.post(f"/arena/battle/{battle}/skip").status_code >= 500
        assert state_of(voter, battle)["state"] == "open"
        with arena.store.database.writing() as connection:
            connection.exec_driver_sql("DROP TRIGGER refuse")
        another = voter.post(f"/arena/battle/{battle}/skip").json()["battle"]
        assert another != battle
        page = voter.client.get(f"/arena/battle/{battle}").text
        assert "You skipped this battle." in page
        assert 'name="text" value="' not in page
        assert not any(name in page for name in arena.models)
        assert voter.vote(battle, "a").status_code == 400
        assert voter.post(f"/arena/battle/{battle}/skip").status_code == 400
    assert ArenaLog(arena.store).n_skipped() == 1
    assert ArenaLog(arena.store).head().sequence == 0


@pytest.mark.parametrize("text", ["fail at once", "fail later"])
def test_a_failed_side_ends_the_battle(served: tuple[str, LiveArena], text: str) -> None:
    """Without a vote, without names and without the endpoint's words; the next battle works."""
    url, arena = served
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        assert ask(voter, battle, text)[-1] == ("end", {})
        page = voter.client.get(f"/arena/battle/{battle}")
        assert "The battle ends without a vote" in page.text
        assert not any(name in page.text for name in ("walrus", "sk-secret"))
        assert state_of(voter, battle)["state"] == "failed"
        assert voter.vote(battle, "a").status_code == 400
        assert ArenaLog(arena.store).head().sequence == 0
        assert voter.begin()["battle"] != battle
    assert arena.store.runs() == []


def test_an_answer_that_names_its_model_is_not_counted(served: tuple[str, LiveArena]) -> None:
    """The vote is stored, and left out of ratings; the voter learns so with the names."""
    url, arena = served
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        ask(voter, battle, "Who are you?")
        assert "is_counted" not in state_of(voter, battle)
        assert voter.vote(battle, "a").json()["is_counted"] is False
        assert "names a model" in voter.client.get(f"/arena/battle/{battle}").text
    (vote,) = ArenaLog(arena.store).votes()
    assert (vote.mode, vote.is_counted) == ("anonymous", False)


def test_the_named_mode_is_stored_and_not_counted(served: tuple[str, LiveArena]) -> None:
    """Names are shown from the start; unknown names and one model twice are refused."""
    url, arena = served
    with ApiVoter(url) as voter:
        for wrong, status in (({"model_a": "x", "model_b": "walrus-slow"}, 404),
                              ({"model_a": "walrus-slow", "model_b": "walrus-slow"}, 400)):  # fmt: skip
            assert voter.post("/arena/battles", mode="named", **wrong).status_code == status
        named = voter.post("/arena/battles", mode="named", model_a="walrus-slow", model_b="walrus-quick").json()
        assert (named["model_a"], named["model_b"]) == ("walrus-slow", "walrus-quick")
        ask(voter, named["battle"], "Hello")
        assert model_of(state_of(voter, named["battle"])["turns"][0]["answer_a"]) == "walrus-slow"
        assert voter.vote(named["battle"], "a").json()["is_counted"] is False
        anonymous = voter.begin()["battle"]
        ask(voter, anonymous, "Hello")
        assert voter.vote(anonymous, "a").json()["is_counted"] is True
    votes = list(ArenaLog(arena.store).votes())
    assert [(vote.mode, vote.is_counted) for vote in votes] == [("named", False), ("anonymous", True)]
    read = votes_in(Rows.of([published_row(vote) for vote in votes]))  # as from an exported file
    assert (len(read.battles.outcome), read.left_out) == (1, {"with a false 'is_counted'": 1})
    assert set(ArenaLog(arena.store).answer_texts(private=False).values()) == set()


def test_moderation_sees_both_conversations(folder: Path) -> None:
    """A refused question is sent to nobody and the battle goes on; a refused answer is never shown."""
    with live_arena(folder, moderate=no_moderation) as (url, _), ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        refused = voter.post(f"/arena/battle/{battle}/ask", text="something forbidden")
        assert (refused.status_code, "this is not allowed here" in refused.text) == (400, True)
        assert Recorded.asked == []
        events = ask(voter, battle, "something unspeakable")
        assert events == [("end", {})]
        assert state_of(voter, battle)["state"] == "failed"
        other = voter.begin()["battle"]
        assert len(ask(voter, other, "Fine?")) > 2


def test_forms_work_without_javascript(served: tuple[str, LiveArena]) -> None:
    """Begin, ask (the answers come whole), vote and names by plain forms; a long question keeps its text."""
    url, arena = served
    with httpx.Client(base_url=url, follow_redirects=True, timeout=60) as client:
        token = re.search(r'name="token" value="(\w+)"', client.get("/").text)
        assert token is not None
        fields = {"token": token[1]}
        response = client.post("/arena/battles", data=fields)
        path = response.url.path
        long = client.post(f"{path}/ask", data={**fields, "text": "long " * 60})
        assert (long.status_code, "at most 200" in long.text, "long long</textarea>" in long.text) == (400, True, True)
        answered = client.post(f"{path}/ask", data={**fields, "text": "Where <i>is</i> it?"})
        assert answered.url.path == path
        assert (
            answered.text.count("&lt;b&gt;1&lt;/b&gt; Where &lt;i&gt;is&lt;/i&gt; it?") == 4
        )  # as Markdown and as raw text
        assert "walrus" not in answered.text
        voted = client.post(f"{path}/vote", data={**fields, "choice": "both_bad", "mark_a": "poor"})
        (vote,) = ArenaLog(arena.store).votes()
        assert f"A was <b>{vote.model_a}</b>" in voted.text
        assert (vote.choice, vote.mark_a) == ("both_bad", "poor")


@pytest.mark.parametrize(
    ("body", "status"),
    [('{"text": 3}', 400), ('{"text": " "}', 400), ('{"text": "a \\ud800 b"}', 400), ("[1]", 400), ("{", 400),
     (json.dumps({"text": "x" * 201}), 400), (json.dumps({"text": "x" * 70_000}), 413)],
)  # fmt: skip
def test_questions_that_are_none_are_refused(served: tuple[str, LiveArena], body: str, status: int) -> None:
    """With one line; the battle goes on with the same pair, so that nobody skips a pair by asking nonsense."""
    url, _ = served
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        headers = {"x-form-token": voter.token, "content-type": "application/json"}
        answer = voter.client.post(f"/arena/battle/{battle}/ask", content=body, headers=headers)
        assert answer.status_code == status
        assert "Traceback" not in answer.text
        assert state_of(voter, battle)["state"] == "open"
        assert voter.begin()["battle"] == battle
        assert voter.post("/arena/battle/none/ask", text="Hello").status_code == 404
        assert Recorded.asked == []


def test_a_battle_is_its_voters_alone(served: tuple[str, LiveArena]) -> None:
    """Another visitor can neither see, ask, follow nor vote; without the form's token nobody can."""
    url, arena = served
    with ApiVoter(url) as voter, ApiVoter(url) as other:
        battle = voter.begin()["battle"]
        ask(voter, battle, "Hello")
        for path in ("", ".json", "/events"):
            assert other.client.get(f"/arena/battle/{battle}{path}").status_code == 404
        for path in ("ask", "regenerate", "vote"):
            assert other.post(f"/arena/battle/{battle}/{path}", text="Hi", choice="a").status_code == 404
            assert voter.client.post(f"/arena/battle/{battle}/{path}", json={"text": "Hi"}).status_code == 403
        assert voter.vote(battle, "a").status_code == 200
        assert voter.post(f"/arena/battle/{battle}/ask", text="More?").status_code == 400
    assert ArenaLog(arena.store).head().sequence == 1


def test_windows_that_follow_a_battle_are_limited(served: tuple[str, LiveArena]) -> None:
    """A fifth one is refused while four are open, so that a visitor cannot take all requests of the server."""
    url, _ = served
    with ApiVoter(url) as voter, ExitStack() as windows:
        battle = voter.begin()["battle"]
        voter.post(f"/arena/battle/{battle}/ask", text="Where is the ice?")
        path, statuses = f"/arena/battle/{battle}/events", []
        for _ in range(5):
            window = windows.enter_context(voter.client.stream("GET", path))
            statuses.append(window.status_code)
        assert statuses == [200, 200, 200, 200, 429]


def test_two_tabs_give_one_vote(served: tuple[str, LiveArena]) -> None:
    """Of six simultaneous votes one is stored; repeating it with its key is answered alike."""
    url, arena = served
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        ask(voter, battle, "Hello")
        statuses: list[int] = []

        def click(number: int) -> None:
            statuses.append(voter.vote(battle, "ab"[number % 2], f"tab {number}").status_code)

        threads = [threading.Thread(target=click, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(statuses) == [200, *[409] * 5]
        (vote,) = ArenaLog(arena.store).votes()
        key = next(f"tab {n}" for n in range(6) if voter.vote(battle, vote.choice, f"tab {n}").status_code == 200)
        assert voter.vote(battle, vote.choice, key).status_code == 200
    assert ArenaLog(arena.store).head().sequence == 1
    assert ArenaLog(arena.store).problems() == []


def test_what_a_voter_wrote_can_be_erased(served: tuple[str, LiveArena]) -> None:
    """Texts and conversations go; the vote, its hash and the page stay."""
    url, arena = served
    with ApiVoter(url) as voter:
        battle = voter.begin()["battle"]
        ask(voter, battle, "My name is Rumpelstilzchen")
        voter.vote(battle, "a")
        assert erase_battle(arena.store, battle) == 5
        assert "Rumpelstilzchen" not in voter.client.get(f"/arena/battle/{battle}").text
    assert arena.store.runs() == []
    assert ArenaLog(arena.store).problems() == []
    assert b"Rumpelstilzchen" not in b"".join(str(row).encode() for row in ArenaLog(arena.store).votes())
