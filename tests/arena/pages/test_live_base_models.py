"""Base models in live battles: a real host is asked for completions of plain transcripts, which are stored."""

import time
from pathlib import Path

import pytest

from assaymark.arena.ballots import Publishing
from assaymark.arena.cadence import Cadence
from assaymark.arena.live_battles import LiveArena, LiveLimits
from assaymark.arena.rating_boards import Ratings
from assaymark.arena.routes.live_battles import live_feature
from assaymark.errors import UsageError
from assaymark.hosting.chat import PLAIN
from assaymark.hosting.endpoints import read_endpoints
from assaymark.models.plain_prompts import transcript
from assaymark.records import GenerateQuery, Message
from assaymark.store import Store
from assaymark.web.app import create_app
from assaymark.web.secret import server_secret
from tests.arena.pages.arena_voters import ApiVoter
from tests.arena.stored_votes import NO_LIMITS
from tests.served import running


def test_the_address_says_what_a_model_is() -> None:
    """/completions is of a base model; the base of the API, and /chat/completions, of a chat model."""
    inputs = ("a=http://h:1/v1/completions#m", "b=http://h:1/v1/chat/completions", "c=http://h:1/v1", "d=http://h:1")
    result = read_endpoints(inputs)
    assert [each.is_base for each in result] == [True, False, False, False]
    assert {item.url for item in result} == {"http://h:1/v1"}
    assert result[0].model == "m"
    with pytest.raises(UsageError, match="expected NAME=URL"):
        read_endpoints(["a=completions"])


def test_a_transcript_is_that_of_a_chat() -> None:
    """The same text as `assaymark chat` sends to a model without template, system message included."""
    said = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Yes?"), ("user", "Why?")]
    expected = PLAIN.render([Message.of_text(role, text) for role, text in said])  # type: ignore[arg-type]
    assert transcript([{"role": role, "content": text} for role, text in said]) == expected


def test_a_base_model_fights_a_chat_model(tmp_path: Path) -> None:
    """Two turns with a real host as both endpoints; both answer, the base model to transcripts."""
    pytest.importorskip("torch")
    from assaymark.hosting.app import HostSettings
    from tests.hosting.running import NAME, hosting, local_model

    with (
        hosting(local_model(n_slots=4), HostSettings()) as upstream,
        Store.open(str(tmp_path / "s.sqlite"), hidden_for="a test") as store,
    ):
        endpoints = read_endpoints([f"chatty={upstream}#{NAME}", f"plain={upstream}/completions#{NAME}"])
        arena = LiveArena(
            store, ["chatty", "plain"], server_secret(), LiveLimits(turns=2, tokens=12, seconds=30), NO_LIMITS,
            Publishing(5, 1e9, 2), Cadence(0.02, 40, 120, 0.02), seed=1, base_models=frozenset({"plain"}),
        )  # fmt: skip
        part = live_feature(arena, endpoints, Ratings(store), None)
        with running(create_app([part])) as url, ApiVoter(url) as voter:
            battle = voter.begin()["battle"]
            for question in ("Harin took the rope.", "And then?"):
                assert voter.post(f"/arena/battle/{battle}/ask", text=question).status_code == 200
                wait_until_open(arena, battle)
            assert voter.vote(battle, "tie").status_code == 200
        runs = {run.plan.model.name: run.run_id for run in store.runs()}
        plain = [record.request for record in store.samples(runs["plain"], "arena_battle")]
        answers = [record.outputs[0].text for record in store.samples(runs["plain"], "arena_battle")]
        chatty = [record.request for record in store.samples(runs["chatty"], "arena_battle")]
    assert plain[0].prompt == "User: Harin took the rope.\nAssistant:"
    assert plain[1].prompt == f"User: Harin took the rope.\nAssistant: {answers[0]}\nUser: And then?\nAssistant:"
    assert isinstance(plain[0].queries[0], GenerateQuery)
    assert plain[0].queries[0].settings.stop == ("\nUser:",)
    assert plain[0].messages == ()
    assert answers[0] == str(answers[0]).lstrip() != ""
    assert [len(request.messages) for request in chatty] == [1, 3]


def wait_until_open(arena: LiveArena, battle: str) -> None:
    """Wait until both models have answered."""
    for _ in range(600):
        result = arena._battles[battle]
        if result.state != "answering":
            assert result.state == "open"
            return
        time.sleep(0.05)
    raise AssertionError("the battle is still being answered")
