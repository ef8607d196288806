"""Studies: the file, the design's balance, a rater's way, results, erasure; on a real store."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from assaymark.arena.studies.design import design_study
from assaymark.arena.studies.results import export_study, results_of, study_rows
from assaymark.arena.studies.sessions import AnsweredAlready, StudySessions, invitations, store_study
from assaymark.arena.studies.study_file import (
    AttentionCheck,
    Scale,
    StudyFile,
    StudyQuestion,
    read_study,
    write_example,
)
from assaymark.arena.studies.study_log import StudyLog
from assaymark.arena.vote_files import read_votes
from assaymark.errors import AssaymarkError, DataError, HashMismatch, StoreError, UnknownName, UsageError
from assaymark.store import Store

MODELS = ("owl", "fox", "hen")
SECRET = b"s" * 32


@pytest.fixture
def study(tmp_path: Path) -> StudyFile:
    """Return a study of three models on 12 prompts of two categories: 24 comparisons by 12 raters."""
    rows = [
        {"instruction": f"Prompt {n}", "category": ("writing", "coding")[n % 2], "generator": name,
         "output": f"answer {place} of {n}"}
        for n in range(12) for place, name in enumerate(MODELS)
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    raters = tuple(f"rater {n}" for n in range(12))
    return StudyFile(
        "test", "Title", (tmp_path / "a.jsonl",), raters, "Yes?", quotas={"writing": 12, "coding": 12},
        questions=(StudyQuestion(id="why", text="Why?", choices=("style", "content")),),
        demographics=(StudyQuestion(id="age", text="Age", choices=("young", "old")),),
        checks=(AttentionCheck("2 + 2", "4", "fish"),),
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a new store."""
    return Store.open(str(tmp_path / "s.sqlite"))


def test_the_design_is_balanced(study: StudyFile) -> None:
    """Pairs, categories and sides equally often; each rater at most `cap`, no comparison twice, and one check."""
    design = design_study(study)
    assert design.n_comparisons == 24
    asked = [each for own in design.assignments.values() for each in own if each.expected is None]
    assert len(asked) == 48
    pairs = Counter(frozenset((item.model_a, item.model_b)) for item in asked)
    assert set(pairs.values()) == {16}
    sides = Counter((result.model_a, result.model_b) for result in asked)
    assert all(abs(sides[a, b] - sides[b, a]) <= 1 for a, b in sides)
    assert Counter(design.plan["items"][result.item]["category"] for result in asked) == {"writing": 24, "coding": 24}
    for own in design.assignments.values():
        comparisons = [
            (result.item, frozenset((result.model_a, result.model_b))) for result in own if result.expected is None
        ]
        assert len(comparisons) == len(set(comparisons)) == 4
        assert len(own) == 5
    assert design_study(study) == design
    assert design_study(replace(study, seed=2)) != design


@pytest.mark.parametrize(
    ("change", "said"),
    [({"cap": 3}, "add 4 raters, raise `cap`"), ({"ratings": 13}, "add raters"),
     ({"quotas": {"poems": 1}}, "unknown category"),
     ({"quotas": {"writing": 19}}, "the answers have 18"),
     ({"models": ("owl", "cat")}, "unknown model")],
)  # fmt: skip
def test_a_study_that_cannot_be_done_is_refused(study: StudyFile, change: dict[str, object], said: str) -> None:
    """With what is missing, in one line."""
    with pytest.raises(AssaymarkError, match=said) as caught:
        design_study(replace(study, **change))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_the_example_is_a_study(tmp_path: Path) -> None:
    """`study init` writes files that `study check` accepts, and overwrites none."""
    path = write_example(tmp_path / "new")
    read = read_study(path)
    assert (read.cap, len(read.checks), design_study(read).n_comparisons) == (4, 1, 4)
    with pytest.raises(UsageError, match="exists"):
        write_example(tmp_path / "new")


@pytest.mark.parametrize(
    ("line", "said"),
    [("cap: many", "`cap`"), ("quota: {writing: 1}", "nearest: quotas"),
     ("questions: [{id: better, text: x, choices: [a, b]}]", "other than better"),
     ("questions: [{id: x}]", "number 1, lacks choices and lacks text"),
     ("questions: [{id: winner, text: x, choices: [a, b]}]", "other than better, category"),
     ("questions: [{id: x, text: y, choices: [a, a]}]", "different choices for 'x'"),
     ("questions: [{id: x, text: y, choices: [yes, no]}]", "in quotes"),
     ("scales: [{id: q, text: x, points: 3, low: no, high: b}]", "in quotes"),
     ("scales: [{id: q, text: x, points: 3, high: b}]", "lacks low"),
     ("scales: [{id: model, text: x, points: 3, low: a, high: b}]", "none of better"),
     ("raters: 0", "`raters`"), ("study: a/b", "`study`"),
     ("consent: ''", "`consent`"), ("quotas: {writing: -1}", "`quotas`"), ("answers: {}", "`answers`"), ("[", "YAML"),
     ("scales: [{id: q, text: x, points: 1, low: a, high: b}]", "points from 2"),
     ("groups: [age]", "there are none"), ("group_quotas: {age: {old: 1}}", "`group_quotas`")],
)  # fmt: skip
def test_a_wrong_file_is_named(tmp_path: Path, line: str, said: str) -> None:
    """File, key, value and what was expected, in one line."""
    path = write_example(tmp_path)
    key = line.partition(":")[0]
    kept = [each for each in path.read_text().splitlines() if not each.startswith(f"{key}:")]
    path.write_text("\n".join([*kept, line]))
    with pytest.raises((DataError, UnknownName)) as caught:
        read_study(path)
    assert said in str(caught.value)
    assert "study.yaml" in str(caught.value)


def answer_all(session: StudySessions, token: str, *, better: str | None = None) -> int:
    """Answer all comparisons of an invitation, in favour of the earlier of MODELS, or always with `better`."""
    session.consent(token, agreed=True, demographics={"age": "old"})
    n = 0
    while (step := session.step(token)).kind == "item":
        left = "a" if step.answer_a == "4" or (step.answer_a < step.answer_b and step.answer_b != "4") else "b"
        session.answer(token, step.position, {"better": better or left, "why": "style"})
        n += 1
    return n


def test_from_invitation_to_results(study: StudyFile, store: Store, tmp_path: Path) -> None:
    """Twelve raters answer; the results have the preferences they were given, and the export rates alike."""
    assert store_study(store, study, SECRET, 0.0)[1]
    assert not store_study(store, study, SECRET, 9.0)[1]
    tokens = [path.rpartition("/")[2] for path in invitations(store, "test", SECRET).values()]
    session = StudySessions(store)
    assert [answer_all(session, token) for token in tokens] == [5] * 12
    assert {session.step(token).kind for token in tokens} == {"thanks"}
    result = results_of("test", store.url.removeprefix("sqlite:///"))
    assert (result.n_finished, result.n_ratings, result.failed_checks) == (12, 48, ())
    overall = [
        (pair.first, pair.second, pair.preferred, pair.n_comparisons) for pair in result.pairs if pair.category == "all"
    ]
    assert overall == [("owl", "fox", 1.0, 8), ("owl", "hen", 1.0, 8), ("fox", "hen", 1.0, 8)]
    assert (result.agreement.n_pairs, result.agreement.same) == (24, 1.0)
    assert result.answers == {"why": {"style": 48, "content": 0}}
    path = tmp_path / "x.jsonl"
    assert export_study("test", path, store.url.removeprefix("sqlite:///")) == 48
    assert "Prompt" not in path.read_text()
    assert "rater 0" not in path.read_text().replace('"judge": "rater', "")
    assert len(read_votes(path).battles) == 48
    assert export_study("test", path, store.url.removeprefix("sqlite:///"), demographics=True) == 12
    assert set(path.read_text().splitlines()) == {'{"age": "old"}'}


def test_who_fails_a_check_is_left_out(study: StudyFile, store: Store) -> None:
    """A rater who always clicks the wrong side of the check is named, and counts in no result."""
    store_study(store, study, SECRET, 0.0)
    session = StudySessions(store)
    token = next(iter(invitations(store, "test", SECRET).values())).rpartition("/")[2]
    checked = next(
        assignment
        for assignment in StudyLog(store).assignments("test")
        if assignment.rater == "rater 0" and assignment.expected
    )
    answer_all(session, token, better="b" if checked.expected == "a" else "a")
    result = results_of("test", store.url.removeprefix("sqlite:///"))
    assert (result.failed_checks, result.n_ratings, result.pairs) == (("rater 0",), 0, ())


def test_a_rater_sees_no_model_and_no_category(study: StudyFile, store: Store) -> None:
    """Nor which item is a check."""
    store_study(store, study, SECRET, 0.0)
    session = StudySessions(store)
    token = next(iter(invitations(store, "test", SECRET).values())).rpartition("/")[2]
    session.consent(token, agreed=True, demographics={})
    while (step := session.step(token)).kind == "item":
        said = repr(step)
        assert not any(word in said for word in (*MODELS, "writing", "coding", "attention", "expected"))
        session.answer(token, step.position, {"better": "tie", "why": "style"})


def test_answers_come_in_order_and_once(study: StudyFile, store: Store) -> None:
    """Nothing before consent; no skipping; another answer is refused; every question needs a known choice."""
    store_study(store, study, SECRET, 0.0)
    session = StudySessions(store)
    token = next(iter(invitations(store, "test", SECRET).values())).rpartition("/")[2]
    good = {"better": "a", "why": "style"}
    with pytest.raises(UsageError, match="consent"):
        session.answer(token, 0, good)
    with pytest.raises(UsageError, match="consent"):
        session.consent(token, agreed=False, demographics={})
    with pytest.raises(UsageError, match="not an answer to 'age'"):
        session.consent(token, agreed=True, demographics={"age": "7"})
    session.consent(token, agreed=True, demographics={})
    with pytest.raises(UsageError, match="comes after"):
        session.answer(token, 2, good)
    for wrong in ({"better": "a"}, {"better": "c", "why": "style"}, {"better": "a", "why": "mood"}):
        with pytest.raises(UsageError):
            session.answer(token, 0, wrong)
    session.answer(token, 0, good)
    session.answer(token, 0, good)
    with pytest.raises(AnsweredAlready, match="comparison 1 has another answer already"):
        session.answer(token, 0, {**good, "better": "b"})
    first = StudyLog(store).assignments("test")[0]
    assert first.answers == good
    with pytest.raises(UnknownName, match="invitation"):
        session.step("0" * 32)


def test_erasing_removes_everything_of_a_rater(study: StudyFile, store: Store) -> None:
    """Choices, demographics, name and invitation; the others stay, and the store verifies."""
    store_study(store, study, SECRET, 0.0)
    session = StudySessions(store)
    paths = invitations(store, "test", SECRET)
    for name in ("rater 0", "rater 1"):
        answer_all(session, paths[name].rpartition("/")[2])
    assert StudyLog(store).erase("test", "rater 0") == 5
    with pytest.raises(UnknownName):
        session.step(paths["rater 0"].rpartition("/")[2])
    assert "rater 0" not in invitations(store, "test", SECRET)
    assert len(StudyLog(store).demographics("test")) == 1
    with store._database.reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM study_answers")).scalar() == 5
        assert connection.execute(text("SELECT count(*) FROM study_raters WHERE name = 'rater 0'")).scalar() == 0
    assert store.verify() == []
    with pytest.raises(UnknownName):
        StudyLog(store).erase("test", "rater 0")


def test_a_changed_file_needs_another_name(study: StudyFile, store: Store) -> None:
    """The stored study is never changed under its raters."""
    store_study(store, study, SECRET, 0.0)
    with pytest.raises(StoreError, match="another `study:` name"):
        store_study(store, replace(study, title="Other"), SECRET, 0.0)
    with pytest.raises(UnknownName, match="nearest: test"):
        StudyLog(store).plan("tset")


def rate_all(session: StudySessions, token: str, age: str, points: dict[str, int]) -> None:
    """Answer all comparisons: the young prefer the earlier of MODELS, the old the later; each model gets its points."""
    session.consent(token, agreed=True, demographics={"age": age})
    while (step := session.step(token)).kind == "item":
        if "4" in {step.answer_a, step.answer_b}:
            choice, given_a, given_b = ("a" if step.answer_a == "4" else "b"), 1, 1
        else:
            places = [int(text.split()[1]) for text in (step.answer_a, step.answer_b)]
            first_is_earlier = places[0] < places[1]
            choice = "a" if first_is_earlier == (age == "young") else "b"
            given_a, given_b = (points[MODELS[place]] for place in places)
        answers = {"better": choice, "why": "style", "quality_a": str(given_a), "quality_b": str(given_b)}
        session.answer(token, step.position, answers)


def test_answers_are_rated_by_themselves_and_results_counted_by_group(study: StudyFile, store: Store) -> None:
    """Means are those given; a group prefers what it chose; two raters are too few, and another group hides them."""
    scale = Scale(id="quality", text="How good?", points=5, low="bad", high="excellent")
    ages = StudyQuestion(id="age", text="Age", choices=("young", "old", "ancient"))
    store_study(store, replace(study, scales=(scale,), demographics=(ages,), groups=("age",)), SECRET, 0.0)
    tokens = [path.rpartition("/")[2] for path in invitations(store, "test", SECRET).values()]
    session = StudySessions(store)
    assert session.step(tokens[0]).groups == ("Age",)
    for n, token in enumerate(tokens):
        rate_all(session, token, "old" if n < 5 else "young" if n < 10 else "ancient", {"owl": 5, "fox": 3, "hen": 2})
    results = results_of("test", store.url.removeprefix("sqlite:///"))
    assert [(each.model, each.mean, each.alpha) for each in results.scales] == [
        ("owl", 5.0, 1.0), ("fox", 3.0, 1.0), ("hen", 2.0, 1.0)
    ]  # fmt: skip
    assert sum(each.n_ratings for each in results.scales) == 2 * results.n_ratings
    (group,) = results.groups
    assert (group.choice, group.n_raters, results.n_small_groups) == ("young", 5, 2)
    assert {pair.preferred for pair in group.pairs} == {1.0}
    assert all(pair.preferred < 1.0 for pair in results.pairs if pair.category == "all")


def test_a_groups_raters_cannot_be_computed_from_what_is_published(study: StudyFile, store: Store) -> None:
    """Choices of a study with groups are not joined by rater; of a pair a group has enough raters, or nothing."""
    ages = StudyQuestion(id="age", text="Age", choices=("young", "old"))
    scale = Scale(id="quality", text="How good?", points=5, low="bad", high="excellent")
    plain = replace(study, demographics=(ages,), scales=(scale,))
    for name, groups in (("plain", ()), ("counted", ("age",))):
        store_study(store, replace(plain, study=name, groups=groups), SECRET, 0.0)
        session = StudySessions(store)
        for n, path in enumerate(invitations(store, name, SECRET).values()):
            rate_all(session, path.rpartition("/")[2], "young" if n % 2 else "old", dict.fromkeys(MODELS, 3))
    log = StudyLog(store)
    rows = {name: study_rows(log.plan(name), log.assignments(name)) for name in ("plain", "counted")}
    prompts_of: dict[str, Counter[int]] = {}  # how many prompts a number stands for
    for name, own in rows.items():
        judged = {(row["judge"], row["prompt_id"]) for row in own}
        prompts_of[name] = Counter(Counter(judge for judge, _ in judged).values())
    assert max(prompts_of["plain"]) > 1  # a rater's choices of several prompts bear one number
    assert set(prompts_of["counted"]) == {1}
    assert len(rows["plain"]) == len(rows["counted"])
    assert rows["counted"] == sorted(
        rows["counted"], key=lambda row: json.dumps({k: v for k, v in row.items() if k != "judge"}, sort_keys=True)
    )
    results = results_of("counted", store.url.removeprefix("sqlite:///"))
    raters = {rater: said["age"] for rater, said in log.groups_of("counted", ["age"]).items()}
    for group in results.groups:
        for pair in group.pairs:
            compared = {
                (row.rater, raters[row.rater]) for row in log.assignments("counted")
                if row.expected is None and {row.model_a, row.model_b} == {pair.first, pair.second}
            }  # fmt: skip
            sizes = Counter(age for _, age in compared)
            assert sizes[group.choice] >= 5
            assert sizes.total() - sizes[group.choice] >= 5


def test_a_full_group_is_thanked_and_nothing_stored(study: StudyFile, store: Store) -> None:
    """A quota's question must be answered; whoever is too many gets one line, and may not answer comparisons."""
    quotas = {"age": {"old": 1}}
    store_study(store, replace(study, group_quotas=quotas), SECRET, 0.0)
    first, second, third = [path.rpartition("/")[2] for path in invitations(store, "test", SECRET).values()][:3]
    session = StudySessions(store)
    with pytest.raises(UsageError, match="no answer to age"):
        session.consent(first, agreed=True, demographics={})
    session.consent(first, agreed=True, demographics={"age": "old"})
    with pytest.raises(UsageError, match="enough people who say 'old'"):
        session.consent(second, agreed=True, demographics={"age": "old"})
    assert session.step(second).kind == "consent"
    session.consent(third, agreed=True, demographics={"age": "young"})
    assert session.step(third).kind == "item"
    assert len(StudyLog(store).demographics("test")) == 2


def test_a_changed_answer_is_an_error_and_no_result(study: StudyFile, store: Store) -> None:
    """A choice that was changed in the database is not counted."""
    store_study(store, study, SECRET, 0.0)
    (path, *_) = invitations(store, "test", SECRET).values()
    answer_all(StudySessions(store), path.rpartition("/")[2])
    with store.database.writing() as connection:
        connection.execute(text("UPDATE study_answers SET seconds = seconds + 1"))
    with pytest.raises(HashMismatch, match=r"a row of study_answers .* is not as it was saved"):
        StudyLog(store).assignments("test")
