"""Why answers are wrong, on models with planted faults."""

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import assaymark
from assaymark.audit.diagnosing import diagnose
from assaymark.audit.diagnosis import CAUSES, Diagnosis, _not_extracted
from assaymark.cli.main import main
from assaymark.errors import UnknownName, UsageError
from assaymark.models.model import OutputCache
from assaymark.records import (
    GenerateQuery,
    LoglikelihoodQuery,
    ModelIdentity,
    Output,
    Progress,
    QueryKind,
    Request,
    Score,
)
from assaymark.runs.demo import demo_model
from assaymark.store import SampleRecord, Store
from tests.audit.counting_model import CountingModel

N = 120
POSITION, BLIND, CLOZE_ONLY, IGNORANT, KNOWS, CONTESTED = range(6)  # the fault of question n is n % 6
PLANTED = {
    "position bias": {POSITION},
    "reads only the choices": {BLIND},
    "prompt sensitivity": {CLOZE_ONLY},
    "missing knowledge": {IGNORANT},
    "ambiguous": {CONTESTED},
}
OPTION = re.compile(r"option (\d+)-(\d)")
QUESTION = re.compile(r"Question number (\d+)")


def gold_of(n: int) -> int:
    """Return the position of the right option of a question."""
    return (7 * n + n // 6) % 4


class PlantedModel(CountingModel):
    """Knows which question it is asked and which options are listed, and answers by a rule instead of counts."""

    answers = frozenset({QueryKind.LOGLIKELIHOOD, QueryKind.GENERATE})

    def __init__(self, name: str, rule: Callable[[int | None, Sequence[int], int, bool], int]) -> None:
        """Take a rule: (question or None, listed options, options' question, whether texts are asked) -> option."""
        super().__init__()
        self.name, self.rule = name, rule

    @property
    def identity(self) -> ModelIdentity:
        """Return an identity of this name."""
        return ModelIdentity(self.name, "planted", f"sha256:{self.name}", None, None, "float64", "float32", 100_000)

    def answer(
        self,
        requests: Sequence[Request],
        *,
        cache: OutputCache | None = None,
        observe: Callable[[Progress], None] | None = None,
    ) -> Iterator[Output]:
        """Yield an answer to every query."""
        for request in requests:
            for query in request.queries:
                if isinstance(query, GenerateQuery):
                    yield self._generated(request, query.index)
                elif isinstance(query, LoglikelihoodQuery):
                    segments = query.segments if query.segments is not None else request.segments
                    nats = self._nats("".join(segments), query.continuation.strip(), request, query.index)
                    yield Output(request.id, query.index, total_nats=nats, is_greedy=False, n_tokens=1)

    def _nats(self, context: str, continuation: str, request: Request, index: int) -> float:
        asked = context.rpartition("\n\n")[2]
        question = QUESTION.search(asked)
        n = int(question[1]) if question else None
        text = OPTION.search(continuation)
        if text:
            return -0.1 if self.rule(n, (), int(text[1]), True) == int(text[2]) else -3.0
        listed = [(int(each[1]), int(each[2])) for each in OPTION.finditer(asked)]
        position = "ABCD1234".index(continuation.strip("()").upper()) % 4
        options = [option for _, option in listed]
        return -0.1 if self.rule(n, options, listed[0][0], False) == options[position] else -3.0

    def _generated(self, request: Request, index: int) -> Output:
        result = QUESTION.findall(request.prompt)
        n = int(result[-1])
        kinds = (("", "length"), (f"I say that it is {n + 1000}.", "stop"), (f"{n}", "stop"), (f"{n + 1000}", "stop"))
        text, reason = kinds[n % 4]
        return Output(request.id, index, text=text or f"Let me think about {n}", finish_reason=reason, n_tokens=3)


def faulty(n: int | None, options: Sequence[int], of: int, asks_text: bool) -> int:
    """Return the option that a model with the fault of each question picks."""
    fault, gold = of % 6, gold_of(of)
    if fault == POSITION and options:
        return options[1] if (gold != 1 or n is None) else options[2]
    if fault == BLIND:
        return (gold + 1) % 4
    if n is None:  # without the question the others cannot answer
        return (gold + 2) % 4
    if fault == KNOWS or (fault == CLOZE_ONLY and asks_text):
        return gold
    return (gold + 1) % 4


def better(n: int | None, options: Sequence[int], of: int, asks_text: bool) -> int:
    """Return the option of a model that is wrong on contested questions only, and there as the others are."""
    return (gold_of(of) + (1 if of % 6 == CONTESTED else 0)) % 4


def guessing(n: int | None, options: Sequence[int], of: int, asks_text: bool) -> int:
    """Return an option that depends on everything the model sees."""
    seen = f"{n} {list(options)} {of} {asks_text}".encode()
    return hashlib.sha256(seen).digest()[0] % 4


def write_questions(path: Path, n: int = N) -> Path:
    """Write multiple-choice questions whose options name their question."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["question", "A", "B", "C", "D", "answer"])
        for number in range(n):
            options = [f"option {number}-{option}" for option in range(4)]
            writer.writerow([f"Question number {number}?", *options, "ABCD"[gold_of(number)]])
    return path


@pytest.fixture(scope="module")
def diagnosed(tmp_path_factory: pytest.TempPathFactory) -> tuple[assaymark.Run, Diagnosis]:
    """The diagnosis of a model with five faults, in a store with three better ones."""
    folder = tmp_path_factory.mktemp("planted")
    questions, store = str(write_questions(folder / "planted.csv")), str(folder / "s.sqlite")
    for name in ("better-1", "better-2", "better-3"):
        assaymark.evaluate(PlantedModel(name, better), questions, store=store)
    model = PlantedModel("faulty", faulty)
    run = assaymark.evaluate(model, questions, store=store)
    (diagnosis,) = diagnose(run, model=model)
    return run, diagnosis


@pytest.mark.slow
def test_every_planted_fault_is_recovered(diagnosed: tuple[assaymark.Run, Diagnosis]) -> None:
    """Each wrong answer has the cause that was planted, and the counts are those of the answers."""
    run, diagnosis = diagnosed
    assert (diagnosis.n, diagnosis.n_wrong, diagnosis.n_failed, diagnosis.n_diagnosed) == (N, 100, 0, 100)
    assert diagnosis.n_better_models == 3
    for cause, faults in PLANTED.items():
        own = {answer.index for answer in diagnosis.answers if answer.cause == cause}
        assert own == {n for n in range(N) if n % 6 in faults}, cause
    counts = {count.cause: count for count in diagnosis.causes}
    assert list(counts) == [cause.name for cause in CAUSES]
    assert Counter(answer.cause for answer in diagnosis.answers) == {name: c.n for name, c in counts.items() if c.n}
    assert counts["position bias"].share == pytest.approx(0.2)
    assert counts["position bias"].low < 0.2 < counts["position bias"].high
    assert counts["position bias"].chance == pytest.approx(4.0**-3)
    assert run.estimate("planted").value == pytest.approx(20 / 120)


@pytest.mark.slow
def test_a_guessing_model_gets_no_more_than_the_stated_chance(tmp_path: Path) -> None:
    """Conditions that hold by chance hold as often as stated; the rest of the guesses is missing knowledge."""
    questions, n = str(write_questions(tmp_path / "guess.csv", 300)), 300
    model = PlantedModel("guessing", guessing)
    run = assaymark.evaluate(model, questions, store=str(tmp_path / "s.sqlite"))
    (diagnosis,) = diagnose(run, model=model, at_most=None, more_shots=0)
    counts = {count.cause: count for count in diagnosis.causes}
    assert diagnosis.n_diagnosed == diagnosis.n_wrong > 0.7 * n * 0.9
    for name in ("position bias", "reads only the choices", "prompt sensitivity"):
        expected = counts[name].chance
        error = (expected * (1 - expected) / diagnosis.n_wrong) ** 0.5
        assert counts[name].share <= expected + 4 * error, name
    assert counts["missing knowledge"].share > 0.4
    assert counts["ambiguous"].n == 0


@pytest.mark.slow
def test_generated_answers_are_read(tmp_path: Path) -> None:
    """An answer that ended at the limit is truncated, one that says the reference is not extracted, others unknown."""
    path = tmp_path / "sums.csv"
    rows = "".join(f"Question number {n}: which number is {n} more than 1000?,{n + 1000}\n" for n in range(40))
    path.write_text(f"question,answer\n{rows}", encoding="utf-8")
    model = PlantedModel("writer", better)
    run = assaymark.evaluate(model, str(path), store=str(tmp_path / "s.sqlite"))
    (diagnosis,) = diagnose(run, model=model)
    causes = {answer.index: answer.cause for answer in diagnosis.answers}
    expected = {0: "truncated", 1: "extraction failure", 2: "missing knowledge"}
    assert causes == {n: expected[n % 4] for n in range(40) if n % 4 in expected}


@pytest.mark.slow
def test_the_same_diagnosis_asks_nothing_twice(diagnosed: tuple[assaymark.Run, Diagnosis]) -> None:
    """A second call returns the stored one, and `show` prints it."""
    run, diagnosis = diagnosed
    lines: list[str] = []
    assert diagnose(run, model=PlantedModel("faulty", faulty), announce=lines.append) == [diagnosis]
    assert len(lines) == 1
    assert lines[0].startswith("diagnosis ")


def test_another_model_is_refused(diagnosed: tuple[assaymark.Run, Diagnosis]) -> None:
    """A diagnosis by other weights would explain another model's answers."""
    with pytest.raises(UsageError, match=r"the model is better-1, and run .* was made by faulty"):
        diagnose(diagnosed[0], model=PlantedModel("better-1", better))
    with pytest.raises(UnknownName, match="planted"):
        diagnose(diagnosed[0], ["plantd"], model=PlantedModel("faulty", faulty))


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`diagnose RUN` loads the run's model by its plan, prints causes and the next experiment, and writes JSON."""
    pytest.importorskip("torch")
    store = str(tmp_path / "s.sqlite")
    run = assaymark.evaluate(demo_model("small"), "demo_letters_places", limit=28, store=store)
    out = tmp_path / "why.json"
    assert main(["diagnose", run.short_id, "--store", store, "-o", str(out)]) == 0
    printed = capsys.readouterr()
    (content,) = json.loads(out.read_text(encoding="utf-8"))
    assert f"{content['n_wrong']} of 28 answers wrong" in printed.out
    assert "next, " in printed.out
    assert "show it with: assaymark show" in printed.err
    assert main(["diagnose", run.short_id, "--store", store, "--task", "demo_letter_places"]) == 2
    assert "nearest: demo_letters_places" in capsys.readouterr().err
    result = printed.err.split("assaymark show ")[1].split()[0]
    assert main(["show", result, "--store", store]) == 0
    assert f"{content['n_wrong']} of 28 answers wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "reference", "is_right"),
    [
        ("We add them up in 3 steps. The answer is 18. (That took me 2 minutes.)", "She has 9 + 9.\n#### 18", True),
        ("So it is \\boxed{1,024}", "1024", True),
        ("I think:\nParis.", "Paris", True),
        ("**Paris**", "paris", True),
        ("The answer is 3.5 apples", "3.5", False),
        ("pen pen pen", "pen pen", False),
        ("2 + 5 = 7, so the answer is 9.", "5", False),
        ("no, no. Final answer: yes", "no", False),
        ("Not Paris but London.", "Paris", False),
        ("", "", False),
    ],
)
def test_an_answer_that_concludes_with_the_reference_was_not_extracted(
    answer: str, reference: str, is_right: bool
) -> None:
    """A mention of the reference is not a conclusion, and an answer that was read and is wrong is not unread."""
    request = Request("sums", 0, "sha256:0", ("?",), (), target=reference)
    record = SampleRecord(None, request, (Output("sums/0/0", 0, text=answer),), ())
    assert (_not_extracted(record, ("exact_match", "none")) is not None) is is_right


def test_an_answer_that_another_filter_reads_right_was_not_extracted() -> None:
    """GSM8K's strict filter wants '####'; the flexible one takes the last number."""
    request = Request("gsm8k", 0, "sha256:0", ("?",), (), target="#### 18")
    scores = (Score(request.id, "exact_match", 0.0, "strict-match"), Score(request.id, "exact_match", 1.0, "flexible"))
    record = SampleRecord(None, request, (Output(request.id, 0, text="It makes 18 in all"),), scores)
    assert _not_extracted(record, ("exact_match", "strict-match")) == "right by the filter flexible"


@pytest.mark.slow
def test_reasoning_does_not_stop_tasks_that_have_no_choices(tmp_path: Path) -> None:
    """A chain of thought is for multiple choice: of a run with both kinds of tasks each is asked as it can be."""
    (tmp_path / "sums.csv").write_text("question,answer\nQuestion number 2: how many?,1002\n", encoding="utf-8")
    tasks = [str(tmp_path / "sums.csv"), str(write_questions(tmp_path / "exam.csv", 12))]
    model = PlantedModel("faulty", faulty)
    run = assaymark.evaluate(model, tasks, store=str(tmp_path / "s.sqlite"))
    sums, exam = diagnose(run, model=model, more_shots=0, reasoning=True)
    assert (sums.task, sums.n_wrong, sums.tried) == ("sums", 1, ())
    assert "chain of thought" in exam.tried
    assert "rotations of the options" in exam.tried


@pytest.mark.slow
def test_a_private_task_is_sealed_by_an_audit_too(tmp_path: Path) -> None:
    """The seal is in the store before the first row, whatever brings it there."""
    write_questions(tmp_path / "exam.csv", 12)
    assert main(["task", "init", str(tmp_path / "exam.csv"), "-o", str(tmp_path / "mine.yaml"), "--name", "mine"]) == 0
    spec = (tmp_path / "mine.yaml").read_text(encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(f"{spec}\nprivate: true\n", encoding="utf-8")
    store = str(tmp_path / "s.sqlite")
    assaymark.audit_prompts([PlantedModel("faulty", faulty)], str(tmp_path / "mine.yaml"), (), store=store)
    with Store.open_to_read(store) as opened:
        (seal,) = opened.seals.all()
        assert (seal.task, seal.is_closed) == ("mine", True)
