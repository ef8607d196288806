"""Published boards, the export, and the test for votes that do not depend on the answers."""

import json
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from assaymark.arena.arena_log import ArenaLog
from assaymark.arena.arena_rows import ModelRow, VoteRow
from assaymark.arena.ballots import Publishing, Voter
from assaymark.arena.dishonest_voters import flagged_voters
from assaymark.arena.export import export_votes, head_file, verify_export
from assaymark.arena.languages import language_of
from assaymark.arena.published import publish_ratings, quality_of, tier_ends
from assaymark.arena.rating_boards import Ratings
from assaymark.arena.ratings import RatingSettings, rate
from assaymark.arena.vote_files import read_votes
from assaymark.errors import DataError, StoreError
from assaymark.randomness import generator_for
from assaymark.store import Store
from tests.arena.stored_votes import PROMPTS, STRENGTHS, arena_in, cast, honest_choice, spoken_arena


def votes_of(voter: str, n: int, choose: str, seed: int = 0) -> list[VoteRow]:
    """Return votes of one voter: honest, or one choice always, or one model always."""
    generator = generator_for("voter", voter, seed)
    names = list(STRENGTHS)
    results = []
    for number in range(n):
        a, b = (names[int(each)] for each in generator.permutation(4)[:2])
        choice = choose
        if choose == "honest":
            choice = honest_choice(a, b, generator)
        elif choose == "random":
            choice = "ab"[int(generator.integers(2))]
        elif choose in names:
            choice = "a" if a == choose else "b" if b == choose else honest_choice(a, b, generator)
        results.append(VoteRow(number + 1, f"{voter} {number}", 0.0, float(number), voter, "anonymous", "s",
                               f"p{number}", None, a, b, False, choice, None, None, True, "", "", "", ""))  # fmt: skip
    return results


def test_a_board_is_a_function_of_the_votes_up_to_its_batch(tmp_path: Path) -> None:
    """Later votes change nothing until they are published, and computing again from the log gives the same board."""
    arena = arena_in(tmp_path / "s.sqlite", publishing=Publishing(100, 1e9, 10))
    ratings = Ratings(arena.store)
    assert ratings.board().why_none == "no votes are published yet"
    cast(arena, 150)
    board = ratings.board()
    assert (board.n_votes, board.batch is not None and board.batch.sequence) == (100, 100)
    again = publish_ratings(list(ArenaLog(arena.store).votes(until=100)), ArenaLog(arena.store).models())
    assert replace(board, batch=None) == again
    assert sum(map(sum, board.matrix.n_battles)) == 200
    assert sum(model.n_votes for model in board.models) == 200


def test_votes_that_are_too_few_say_so_in_plain_words() -> None:
    """Three votes that a side explains: the visitor reads how many are enough, the host why; the counts are shown."""
    names = list(STRENGTHS)[:2]
    choices = (names[0], names[0], names[1])
    votes = [replace(vote, model_a=won, model_b=next(name for name in names if name != won), choice="a")
             for vote, won in zip(votes_of("v", 3, "a"), choices, strict=True)]  # fmt: skip
    board = publish_ratings(votes, [])
    assert board.why_none == "3 votes are too few to rate these models; about 20 are usually enough"
    assert "separation" in board.warnings[0]
    assert board.n_votes == 3
    with_rows = publish_ratings(votes, [ModelRow(at, name, "", None) for at, name in enumerate(names)])
    assert {row.standing for row in with_rows.models} == {"too few votes"}


def test_a_page_shows_the_batch_before_while_the_new_one_is_computed(tmp_path: Path) -> None:
    """Without patience: the earlier board at first, and the new one once it is there."""
    arena = arena_in(tmp_path / "s.sqlite", publishing=Publishing(100, 1e9, 10))
    ratings = Ratings(arena.store, patience=0.0)
    cast(arena, 100)
    seen = [ratings.board().n_votes]
    cast(arena, 100)
    for _ in range(600):
        seen.append(ratings.board().n_votes)
        if seen[-1] == 200:
            break
        time.sleep(0.05)
    assert sorted(set(seen)) == [100, 200]
    assert seen == sorted(seen)
    assert seen[1] == 100


def test_a_store_that_was_replaced_has_its_own_board(tmp_path: Path) -> None:
    """As many votes of another file are another board, also where the server had more votes before."""
    paths = [tmp_path / name for name in ("s.sqlite", "backup.sqlite")]
    for at, path in enumerate(paths):
        made = arena_in(path, publishing=Publishing(100, 1e9, 10), seed=at)
        cast(made, 100, seed=at)
        made.store.close()
    with Store.open(str(paths[0]), follows=True) as store:
        ratings = Ratings(store)
        before = ratings.board()
        paths[1].rename(paths[0])
        with pytest.raises(StoreError, match="the server goes on"):
            ratings.board()
        assert ratings.board().matrix != before.matrix


def test_the_parts_of_a_board_are_the_boards_of_its_categories(tmp_path: Path) -> None:
    """Each category with enough votes has the ranks of its own board, and no other has any."""
    arena = arena_in(tmp_path / "s.sqlite", publishing=Publishing(150, 1e9, 10))
    cast(arena, 150)
    whole = Ratings(arena.store, 40).board()
    assert [part.name for part in whole.parts] == list(whole.categories)
    for part in whole.parts:
        fitted = Ratings(arena.store, 40).board(category=part.name).fitted
        assert fitted is not None
        assert part.n_votes == whole.categories[part.name]
        assert [(each.model, each.best_rank, each.worst_rank) for each in part.ratings] == [
            (each.model, each.best_rank, each.worst_rank) for each in fitted.ratings
        ]
    assert Ratings(arena.store, max(whole.categories.values()) + 1).board().parts == ()


def test_an_error_of_a_board_is_raised_and_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a store raises reaches the caller; the next request computes again."""
    arena = arena_in(tmp_path / "s.sqlite", publishing=Publishing(100, 1e9, 10))
    cast(arena, 100)
    ratings = Ratings(arena.store)
    with monkeypatch.context() as patched:
        patched.setattr(ratings, "_computed", Mock(side_effect=TimeoutError("the disk")))
        with pytest.raises(TimeoutError, match="the disk"):
            ratings.board()
    assert ratings.board().n_votes == 100


@pytest.mark.slow
def test_a_board_of_one_language_is_that_of_its_votes(tmp_path: Path) -> None:
    """Its votes, ratings and warning; the board of all counts each language; unclear prompts are in none."""
    arena = spoken_arena(tmp_path / "s.sqlite")
    cast(arena, 400)
    ratings = Ratings(arena.store)
    whole, french = ratings.board(), ratings.board(language="French")
    votes = list(ArenaLog(arena.store).votes())
    texts = ArenaLog(arena.store).answer_texts()
    by_prompt = {name: [vote for vote in votes if str(PROMPTS[name])[:9] in texts[vote.prompt_commitment]]
                 for name in PROMPTS}  # fmt: skip
    assert whole.languages == french.languages == {name: len(of) for name, of in by_prompt.items() if name is not None}
    assert sum(whole.languages.values()) + len(by_prompt[None]) == whole.n_votes == 400
    alone = publish_ratings(by_prompt["French"], ArenaLog(arena.store).models())
    assert french.n_votes == len(by_prompt["French"]) > 40
    assert [(row.model, row.n_votes) for row in french.models] == [(row.model, row.n_votes) for row in alone.models]
    assert french.warnings[0].startswith(f"{french.n_votes} votes are on prompts in French: with fewer than 500 most")
    assert not any("prompts in" in line for line in whole.warnings)
    assert ratings.board(language="Klingon").why_none == "no published vote is on a prompt in Klingon"


@pytest.mark.slow
def test_an_export_has_languages_and_the_chain_of_before(tmp_path: Path) -> None:
    """The records and hashes are the log's; what `rate --language` selects is what the page of the language has."""
    arena = spoken_arena(tmp_path / "s.sqlite")
    cast(arena, 200)
    votes = list(ArenaLog(arena.store).votes())
    path = tmp_path / "v.jsonl"
    head = export_votes(arena.store, path)
    assert verify_export(path) == (200, None)
    assert [json.loads(line)["hash"] for line in path.read_text().splitlines()] == [vote.hash for vote in votes]
    assert head.hash == votes[-1].hash
    page = Ratings(arena.store).board(language="German")
    selected = read_votes(path, language="German")
    assert len(selected.battles) == page.n_votes == page.languages["German"]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (PROMPTS["English"], "English"),
        (PROMPTS["French"], "French"),
        (PROMPTS["German"], "German"),
        ("港までの道はどれですか。歩いてどのくらいかかりますか。", "Japanese"),
        ("哪条路通往港口，走路需要多长时间？", "Chinese"),
        ("항구로 가는 길은 어느 길이며 걸어서 얼마나 걸리나요?", "Korean"),
        ("Какая дорога ведёт к гавани, и сколько времени занимает прогулка?", "Russian"),
        ("أي طريق يؤدي إلى الميناء وكم من الوقت يستغرق المشي؟", "Arabic"),
        ("2 + 2?", None),
        ("港", None),
        ("", None),
        ("```python\nfor each in range(10): print('the quick brown fox')\n```", None),
        ("hello", None),
    ],
)
def test_a_language_is_named_where_it_is_clear(text: str, language: str | None) -> None:
    """Prompts of several scripts; short texts and code have no language."""
    assert language_of(text) == language


def test_the_export_has_the_ratings_of_the_page(tmp_path: Path) -> None:
    """`assaymark arena rate --side` of the exported file computes the numbers that the page shows."""
    arena = arena_in(tmp_path / "s.sqlite", publishing=Publishing(200, 1e9, 10))
    cast(arena, 200)
    export_votes(arena.store, tmp_path / "v.jsonl", texts=True)
    board = Ratings(arena.store).board(style=True)
    result = rate(read_votes(tmp_path / "v.jsonl", style=True), RatingSettings(side=True, style=True))
    assert board.fitted is not None
    assert [rating.rating for rating in result.ratings] == pytest.approx([each.rating for each in board.fitted.ratings])


def test_an_exported_file_is_verified_without_the_store(tmp_path: Path) -> None:
    """An unchanged file verifies; an edited, removed or appended vote, or another head, is found."""
    arena = arena_in(tmp_path / "s.sqlite")
    cast(arena, 12)
    path = tmp_path / "v.jsonl"
    head = export_votes(arena.store, path)
    assert verify_export(path) == (12, None)
    assert verify_export(path, head.hash) == (12, None)
    lines = path.read_text().splitlines()
    row = json.loads(lines[4])
    edited = json.dumps({**row, "choice": "a" if row["choice"] != "a" else "b"})
    for changed in ([*lines[:4], edited, *lines[5:]], lines[:4] + lines[5:], lines[:-1]):
        path.write_text("\n".join(changed))
        assert verify_export(path)[1] is not None
    path.write_text("[1]\n")
    with pytest.raises(DataError, match="line 1"):
        verify_export(path)
    head_file(path).unlink()
    path.write_text("\n".join(lines))
    with pytest.raises(DataError, match="--head"):
        verify_export(path)


def test_an_open_battle_is_not_in_the_export(tmp_path: Path) -> None:
    """Nothing of a battle is written before its vote."""
    arena = arena_in(tmp_path / "s.sqlite")
    cast(arena, 3)
    token = arena.begin(Voter("x", "y")).token
    export_votes(arena.store, tmp_path / "v.jsonl", texts=True)
    assert token not in (tmp_path / "v.jsonl").read_text()


@pytest.mark.parametrize(
    ("choose", "reason"),
    [("a", "always left"), ("b", "always right"), ("tie", "always tie"), ("both_bad", "always both bad"),
     ("eel", "favours eel")],
)  # fmt: skip
def test_voters_who_do_not_read_are_flagged(choose: str, reason: str) -> None:
    """Among 20 honest voters of 60 votes, one with a fixed button or model is found, with the reason, and no other."""
    votes = [vote for n in range(20) for vote in votes_of(f"honest {n}", 60, "honest")]
    flagged = flagged_voters([*votes, *votes_of("bot", 60, choose)])
    assert [(name, flag.reason) for name, flag in flagged.items()] == [("bot", reason)]


def test_flagged_votes_are_left_out_and_counted() -> None:
    """The board of honest votes and a bot's is the one of honest votes, with the bot's votes counted."""
    honest = [vote for n in range(20) for vote in votes_of(f"honest {n}", 40, "honest")]
    board = publish_ratings([*honest, *votes_of("bot", 60, "eel")], [])
    assert (board.n_votes, board.n_flagged_votes, len(board.flagged)) == (800, 60, 1)
    alone = publish_ratings(honest, [])
    assert board.models == alone.models


def test_tiers_end_where_everybody_above_is_better() -> None:
    """A line needs ranks that do not overlap; there is none below the last model."""
    assert tier_ends([(1, 2), (1, 2), (3, 3), (4, 5), (4, 5)]) == [False, True, True, False, False]
    assert tier_ends([(1, 3), (1, 3), (2, 3)]) == [False, False, False]
    assert tier_ends([]) == []


def test_marks_are_shared_out() -> None:
    """Shares of marked battles, and the wins of an acceptable answer over a poor one."""
    base = votes_of("v", 4, "a")
    marks = [("acceptable", "poor", "a"), ("poor", "acceptable", "a"), ("poor", "poor", "tie"), (None, "poor", "a")]
    votes = [replace(vote, mark_a=a, mark_b=b, choice=c) for vote, (a, b, c) in zip(base, marks, strict=True)]
    result = quality_of(votes)
    assert result is not None
    assert (result.n_battles, result.n_decided, result.good_wins) == (3, 2, 0.5)
    assert (result.poor_poor, result.acceptable_poor, result.acceptable_acceptable) == (1 / 3, 2 / 3, 0)
    assert quality_of(base) is None


def test_battles_of_two_acceptable_answers_are_rated_alone(tmp_path: Path) -> None:
    """The board with `acceptable` has the votes with both marks, and no others."""
    arena = arena_in(tmp_path / "s.sqlite", publishing=Publishing(60, 1e9, 10))
    for number in range(60):
        voter = Voter(f"voter {number}", "origin")
        marks = ("acceptable", ("acceptable", "poor", None)[number % 3])
        arena.vote(voter, (token := arena.begin(voter).token), "ab"[number % 2], token, marks)
    ratings = Ratings(arena.store)
    assert (ratings.board().n_votes, ratings.board(acceptable=True).n_votes) == (60, 20)


def test_votes_of_known_strengths_are_recovered(tmp_path: Path) -> None:
    """1,500 votes of voters with a preference for the left: the order of the models and the side's sign are found."""
    arena = arena_in(tmp_path / "s.sqlite", publishing=Publishing(1500, 1e9, 10))
    votes = [vote for n in range(25) for vote in votes_of(f"v{n}", 60, "honest", seed=3)]
    board = publish_ratings(votes, ArenaLog(arena.store).models())
    assert [row.model for row in board.models] == list(STRENGTHS)
    assert [row.is_preliminary for row in board.models] == [False] * 4
