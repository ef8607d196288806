"""The history of ratings: at each moment they are those that a board of the votes until then has."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.arena_rows import ModelRow, VoteRow
from assaymark.arena.pages.arena_ratings import ratings_page
from assaymark.arena.published import MOST_MOMENTS, Published, publish_ratings
from tests.arena.stored_votes import STRENGTHS, arena_in, cast
from tests.arena.test_published import votes_of

MODELS = [ModelRow(number, name, "", None) for number, name in enumerate(STRENGTHS, 1)]


def ratings_of(board: Published) -> dict[str, tuple[float, float | None, float | None]]:
    """Return rating and interval of each model of a board."""
    rated = [row.rating for row in board.models if row.rating is not None]
    return {rating.model: (rating.rating, rating.low, rating.high) for rating in rated}


@pytest.mark.parametrize("style", [False, True])
def test_each_moment_has_the_ratings_of_the_votes_until_then(style: bool) -> None:
    """Compared with a board of these votes alone, up to the shift that is the same for all models."""
    votes = [replace(vote, sequence=number, prompt_commitment=f"p{number % 50}", answer_a_commitment=f"a{number % 7}",
                     answer_b_commitment=f"b{number % 5}")
             for number, vote in enumerate(votes_of("voter", 300, "honest"), 1)]  # fmt: skip
    texts = {f"p{n}": "?" for n in range(50)} | {f"{side}{n}": "x" * (n + 1) for side in "ab" for n in range(7)}
    chosen = texts if style else None
    board = publish_ratings(votes, MODELS, style=style, texts=chosen)
    assert len(board.history) == MOST_MOMENTS
    assert [moment.n_votes for moment in board.history] == [25 * number for number in range(1, 13)]
    assert [moment.at for moment in board.history] == [votes[25 * number - 1].cast_at for number in range(1, 13)]
    for moment in board.history:
        alone = ratings_of(publish_ratings(votes[: moment.n_votes], MODELS, style=style, texts=chosen))
        shifts = {rating.model: rating.rating - alone[rating.model][0] for rating in moment.ratings}
        assert alone.keys() == shifts.keys()
        shift = next(iter(shifts.values()))
        assert list(shifts.values()) == pytest.approx([shift] * len(shifts), abs=1e-6)
        for rating in moment.ratings:
            assert (rating.low is None) == (alone[rating.model][1] is None)
            if rating.low is not None and rating.high is not None:
                assert [rating.low - shift, rating.high - shift] == pytest.approx(alone[rating.model][1:], abs=1e-6)
    last = {rating.model: (rating.rating, rating.low, rating.high) for rating in board.history[-1].ratings}
    assert last == {model: pytest.approx(values) for model, values in ratings_of(board).items()}


def test_few_votes_have_few_moments() -> None:
    """At least twenty votes between two; none with fewer, and no chart then."""
    votes = votes_of("voter", 59, "honest")
    assert [moment.n_votes for moment in publish_ratings(votes, MODELS).history] == [29, 59]
    few = publish_ratings(votes[:39], MODELS)
    assert len(few.history) == 1
    assert ratings_page(few, style=False).history_svg is None
    assert publish_ratings(votes[:19], MODELS).history == ()


def test_a_model_that_came_later_begins_later() -> None:
    """A model without votes at a moment is not among its ratings; the others keep theirs."""
    early = [vote for vote in votes_of("voter", 400, "honest") if "eel" not in {vote.model_a, vote.model_b}][:120]
    late: list[VoteRow] = votes_of("second", 240, "honest", seed=1)
    votes = [replace(vote, cast_at=float(number)) for number, vote in enumerate([*early, *late])]
    history = publish_ratings(votes, MODELS).history
    assert all("eel" not in {rating.model for rating in moment.ratings} for moment in history[:4])
    assert all("eel" in {rating.model for rating in moment.ratings} for moment in history[-6:])


def test_the_page_draws_a_line_for_each_model_with_points_that_are_links(tmp_path: Path) -> None:
    """Four models: four lines, each point with a title and the address of a row; the JSON has the same moments."""
    arena = arena_in(tmp_path / "s.sqlite")
    cast(arena, 150)
    page = ratings_page(
        publish_ratings(list(ArenaLog(arena.store).votes()), ArenaLog(arena.store).models()),
        style=False,
    )
    assert page.history_svg is not None
    wide, narrow = ET.fromstring(f"<g>{page.history_svg}</g>")
    for drawing in (wide, narrow):
        lines = [path for path in drawing.iter("path") if (path.get("class") or "").startswith("series s")]
        assert len(lines) == len(STRENGTHS)
        links = list(drawing.iter("a"))
        assert len(links) == len(page.board.history) * len(STRENGTHS)
        assert {link.get("href") for link in links} == {f"#row-{number}" for number in range(1, 5)}
        assert all("after" in (link.findtext(".//title") or "") for link in links)
    twin = page.to_json()
    assert isinstance(twin, dict)
    assert [moment["n_votes"] for moment in twin["history"]] == [moment.n_votes for moment in page.board.history]
