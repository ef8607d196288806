"""Benchmarks with an eval.yaml are asked and scored as inspect-ai asks and scores them, by its own code (recorded)."""

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

import assaymark
from assaymark.applications.model_graded import ModelGraded
from assaymark.applications.rows import Row
from assaymark.applications.scorer import Answered, Result
from assaymark.records import Message, Output, Request, TextPart
from assaymark.runs.task_export import exported
from assaymark.scoring.metrics import split_reduced
from assaymark.tasks.bound import BindOptions, BoundTask
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.task import MetricSpec
from tests.applications.oracles.locked import needs_oracle, oracle
from tests.judges.judge_server import judging_server


@dataclass(frozen=True)
class Asked:
    """A benchmark: its tasks, rows, and each row's answers, one for each epoch."""

    tasks: Sequence[Mapping[str, Any]]
    rows: Sequence[Mapping[str, Any]]
    answers: Sequence[Sequence[str]]
    with_prompts: bool = True
    grades: Sequence[Sequence[str]] = ()  # replies of each row's graders

    @property
    def eval_yaml(self) -> str:
        """The file's text; JSON is YAML."""
        return json.dumps({"name": "made", "evaluation_framework": "inspect-ai", "tasks": self.tasks},
                          ensure_ascii=False)  # fmt: skip

    def bound(self, folder: Path) -> list[BoundTask]:
        """Return its tasks, of files in the folder."""
        folder.mkdir()
        (folder / "eval.yaml").write_text(self.eval_yaml, encoding="utf-8")
        lines = "".join(json.dumps(row) + "\n" for row in self.rows)
        (folder / "test.jsonl").write_text(lines, encoding="utf-8")
        selected = Catalog.open(lm_eval=False).select([str(folder)]).tasks
        return [bind(task, BindOptions()) for task in selected]


def task_of(number: int, solvers: Any, scorers: Any, **more: Any) -> dict[str, Any]:
    """Return a task of an eval.yaml; its names alone stand for solvers and scorers without arguments."""
    named = [[each if isinstance(each, dict) else {"name": each} for each in listed] for listed in (solvers, scorers)]
    fields = {"input": "question", "target": "answer", **more.pop("fields", {})}
    return {"id": f"t{number}", "field_spec": fields, "solvers": named[0], "scorers": named[1], **more}


def step(name: str, **args: Any) -> dict[str, Any]:
    """Return a solver or scorer with arguments."""
    return {"name": name, "args": args}


STRANGE = 'it\'s "{{ question }}" {% if x %} \\n \\frac{1}{2} 日本 😀 \n\t{# c #} </s> & $5'
SOLVER_ROWS = [
    {"question": "[0] Which?", "answer": 1, "options": ["a", "b"], "first": "[0] x", "topic": "maps",
     "n": 3, "Of it": 1.5},
    {"question": f"[1] {STRANGE}", "answer": 0, "options": [STRANGE, "{b}", "c"], "first": "[1] {y}", "topic": None,
     "n": True, "Of it": [1, "two"]},
    {"question": "[2] {topic} {0}", "answer": 2, "options": [f"o{n}" for n in range(30)], "first": "[2] z",
     "topic": STRANGE, "n": 0, "Of it": {"k": None}},
]  # fmt: skip
_CHAINS: list[list[Any]] = [
    ["generate"],
    ["chain_of_thought", "generate"],
    [step("chain_of_thought", template="Q: {prompt} {other} {{braces}}"), "generate"],
    [step("prompt_template", template="{topic}|{prompt}|{n}|{Of it}|{extra}|{unknown}", extra=[1, None]), "generate"],
    [step("prompt_template", template="{prompt} {first}", prompt="replaced"), "generate"],
    [step("prompt_template", template=f"{{prompt}}\n{STRANGE.replace('{', '{{').replace('}', '}}')}"), "generate"],
    [step("system_message", template="You know {topic}, {n} of {}."), "generate"],
    [step("user_message", template="And {topic}?"), step("prompt_template", template="<{prompt}>"), "generate"],
    [
        step("prompt_template", template="<{prompt}>"),
        step("user_message", template="Say {word}.", word="it"),
        "generate",
    ],
    [step("generate", temperature=0.5, max_tokens=7)],
    ["multiple_choice"],
    [step("multiple_choice", cot=True)],
    [step("multiple_choice", multiple_correct=True)],
    [step("multiple_choice", cot=True, multiple_correct=True, max_tokens=9)],
    [step("multiple_choice", template="{letters}\n{question}\n{choices}\n{question}")],
    [step("system_message", template="Letters."), "chain_of_thought", "multiple_choice"],
]
SOLVERS = Asked(
    [
        task_of(number, chain, ["includes"], fields={"choices": choices, "metadata": ["topic", "n", "Of it", "first"]})
        for number, (chain, choices) in enumerate(
            [*((chain, "options") for chain in _CHAINS), (["multiple_choice"], ["topic", "question", "first"])]
        )
    ],
    [{**row, "topic": row["topic"] or "none"} for row in SOLVER_ROWS],
    [["ANSWER: A"]] * 3,
)
WITHOUT_TOPIC = Asked(
    [task_of(0, [step("system_message", template="{topic} {n}"), "generate"], ["includes"],
             fields={"metadata": ["topic", "n"]})],
    SOLVER_ROWS, [["x"]] * 3,
)  # fmt: skip

_CRITIC = {"critique_template": "{question} {completion} {topic} {n}", "completion_template": "{critique}|{completion}"}
CRITIQUES = Asked(
    [
        task_of(number, chain, ["includes", "match"], fields={"metadata": ["topic", "n"]})
        for number, chain in enumerate(
            [
                [step("prompt_template", template="<{prompt}>"), "generate", "self_critique"],
                [step("system_message", template="Be {n}."), "generate", step("self_critique", **_CRITIC)],
            ]
        )
    ],
    SOLVER_ROWS,
    [[f"[{row}] {{first}} {STRANGE}", f"[{row}] {{it}} is wrong", f"ANSWER: {row}"] for row in range(3)],
)

_SAID = (
    *(
        "Paris",
        "The answer is Paris.",
        "paris, France",
        "**Paris**",
        "It is not Paris but Rome",
        "ANSWER: B",
        "answer : b.",
    ),
    *(
        "ANSWER: (B)",
        "**ANSWER: B**",
        "ANSWER: B\nANSWER: C",
        "I think B",
        "ANSWER: yes",
        "ANSWER: no!\n",
        "ANSWER: the end",
    ),
    *(
        "ANSWER: 42 apples",
        "42",
        "42.",
        "It is 42.0",
        "(42)",
        "<42",
        "~42",
        "42!",
        "$42",
        "**42**",
        "42 of 50",
        "50 then 42",
    ),
    *(
        "4.2e1",
        "1,234.5",
        "It costs $1,234.50.",
        "\\$1234.5",
        "-3",
        "−3",
        "- 3",
        "+3",
        "３",
        "٣",
        "2½",
        "½",
        "3²",
        "2⁻¹",
    ),
    *("9", "0.5", "Ⅻ", "12", "nan", "inf", "60%", "", "  \n", ".", "the", "A", "a cat sat", "The cat, sat!", "cat-sat"),
    *("sat cat cat", "3.14", "(3.14)", "3.140", "STRASSE", "straße", "İ", "1'000", "1_000", "１，０００", "x" * 300),
)
_WANTED = ("Paris", "B", "b", "yes", "no", "the end", "42", "1234.5", "-3", "3", "2.5", "0.5", "9", "12", "60", "", ".",
           "the", "a cat sat", "cat sat", "3.14", "strasse", "1000", "Rome", "42 apples", "nan")  # fmt: skip
_NUMBERS = (
    *(("42 of 50", "42"), ("50 then 42", "42"), ("42 of 50", "50"), ("３", "3"), ("٣", "3"), ("2½", "2.5")),
    *(("½", "0.5"), ("3²", "9"), ("2⁻¹", "0.5"), ("Ⅻ", "12"), ("−3", "-3"), ("１，０００", "1000")),
    *(("1'000", "1000"), ("1_000", "1000"), ("3.14159265", "3.1416"), ("the sum is (42)", "42"), ("<42", "42")),
    *(("+3", "3"), ("--3", "3"), ("1e400", "1")),
)
"""Answers and targets that are numbers, in several ways."""
_SCORERS = [
    *("includes", step("includes", ignore_case=False), "exact", "f1", step("f1", stop_words=["cat", "Paris"])),
    *(
        step("match", location=where, numeric=numeric)
        for where in ("begin", "end", "any", "exact")
        for numeric in (False, True)
    ),
    step("match", ignore_case=False),
    *(step("answer", pattern=kind) for kind in ("letter", "word", "line")),
    step("pattern", pattern=r"(\d+)|(\w+)"),
    step("pattern", pattern=r"is (\w+)( but \w+)?", match_all=True),
    step("pattern", pattern=r"[A-Z]\w+", ignore_case=False),
    step("pattern", pattern=r"(\w*)"),
]


def scorer_cases() -> Asked:
    """Return pairs of answers and targets, a third of which share a text, under every scorer of texts."""
    draw = random.Random(5)
    pairs = [(said, wanted) for said in _SAID for wanted in _WANTED]
    related = [pair for pair in pairs if pair[1].casefold() in pair[0].casefold() or pair[0][:1] == pair[1][:1]]
    chosen = [*_NUMBERS, *draw.sample(related, 70), *draw.sample(pairs, 35)]
    return Asked(
        [task_of(number, ["generate"], [each]) for number, each in enumerate(_SCORERS)],
        [{"question": f"[{row}]", "answer": wanted} for row, (_, wanted) in enumerate(chosen)],
        [[said] for said, _ in chosen],
        with_prompts=False,
    )


_PICKED = (
    *("ANSWER: A", "answer: b", "ANSWER: C.", "ANSWER: A, B", "ANSWER: AB", "ANSWER: A and C", "ANSWER: A, B, and C"),
    *(
        "ANSWER: D",
        "ANSWER: E",
        "ANSWER: A,",
        "ANSWER: $B$",
        "ANSWER: **B**",
        "**ANSWER: C**",
        "ANSWER: (B)",
        "ANSWER: (B), (C)",
    ),
    *(
        "ANSWER: A\nNo, wait.\nANSWER: B",
        "The ANSWER: B is it",
        "B",
        "",
        "  ",
        "ANSWER:",
        "ANSWER: 1",
        "ANSWER: B C",
        "ANSWER: b,c,",
    ),
    *("ANSWER: None", "ANSWER\n: B", "My answer: (c)\n", "ANSWER: A.\nANSWER: X", "$\\boxed{B}$", "ANSWER: ,"),
)


def choice_cases() -> Asked:
    """Return answers of letters, of questions with three options, one or several of them right."""
    targets = [[0, "A", "B", "c", "A,B", "BC", "A C", "ABC"][row % 8] for row in range(len(_PICKED))]
    return Asked(
        [
            task_of(
                number, [step("multiple_choice", multiple_correct=several)], ["choice"], fields={"choices": "options"}
            )
            for number, several in enumerate((False, True))
        ],
        [{"question": f"[{row}]", "options": ["x", "y", "z"], "answer": answer} for row, answer in enumerate(targets)],
        [[said] for said in _PICKED],
        with_prompts=False,
    )


_REDUCERS = ("mean", "max", "mode", "median", "pass_at_1", "pass_at_2", "pass_at_4", "at_least_1", "at_least_3", None)


def epoch_cases() -> Asked:
    """Return questions with four answers each, under every reducer, scored by letters, by words and by a share."""
    draw = random.Random(6)
    said = [[draw.choice(["ANSWER: A", "ANSWER: B", "", "B A"]) for _ in range(4)] for _ in range(16)]
    tasks: list[Mapping[str, Any]] = []
    for reducer in _REDUCERS:
        more = {"epochs": 4, **({"epoch_reducer": reducer} if reducer else {})}
        fields = {"choices": "options"}
        tasks.append(task_of(len(tasks), ["multiple_choice"], ["choice", "f1"], fields=fields, **more))
        tasks.append(task_of(len(tasks), ["generate"], ["match", step("pattern", pattern=r"(\w)$")], **more))
    rows = [{"question": f"[{row}]", "options": ["x", "y"], "answer": "A"} for row in range(16)]
    return Asked(tasks, rows, said, with_prompts=False)


PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Erk"
    "Jggg=="
)
IMAGES = Asked(
    [
        task_of(number, chain, ["includes"], fields={"input_image": "picture", "choices": "options"})
        for number, chain in enumerate(
            [["generate"], ["multiple_choice"], [step("user_message", template="So?"), "generate"]]
        )
    ],
    [{"question": f"[{row}] What is it?", "answer": 0, "options": ["x", "y"], "picture": picture}
     for row, picture in enumerate([PIXEL, "", None])],
    [["x"]] * 3,
)  # fmt: skip
LITERAL = Asked(
    [task_of(0, ["generate"], ["match"], fields={"target": "literal:a:b {{c}} [1]"}),
     task_of(1, ["generate"], ["match"], fields={"target": "answer"})],
    [{"question": "[0]", "answer": "[1, 2]"}, {"question": "[1]", "answer": 2}, {"question": "[2]", "answer": 0.5}],
    [["a:b {{c}} [1]"], ["2"], ["0.5"]],
)  # fmt: skip


_SOLVED = (
    *(("42", "The answer is 42."), ("42", "\\boxed{42}"), ("42", "$42$"), ("42", "43"), ("1/2", "0.5")),
    *(("0.5", "\\frac{1}{2}"), ("\\frac{1}{2}", "\\boxed{\\dfrac12}"), ("\\sqrt{8}", "2\\sqrt2"), ("1,234", "1234")),
    *(("x+1", "1+x"), ("x^2-1", "(x-1)(x+1)"), ("(1,2)", "(1, 2)"), ("\\{1,2\\}", "\\{2,1\\}"), ("[0,1)", "$[0, 1)$")),
    *(("2\\pi", "6.28"), ("50%", "0.5"), ("x=3", "3"), ("3", "x = 3"), ("10^6", "1000000"), ("-1", "−1")),
    *(("0.333", "1/3"), ("5", "First 4, then \\boxed{5}."), ("7", ""), ("\\text{yes}", "yes"), ("blue", "blue")),
    *(("12", "So we get $x=12$.\n\nFinal answer: 12"), ("blue", "red"), ("6", "six"), ("9", "It is 3 times 3")),
    *(("9", "3^2"), ("9", "\\boxed{8}, no, \\boxed{9}"), ("2", "\\boxed{2 \\text{ apples}}"), ("5", "It is 4. No:\n5")),
    *(("5", "We add 2 and 3 and so we have 5 apples"), ("5", "We add 2 and 5 and so we have 3 apples"), ("8", "**8**")),
    *(
        ("8", "First $3$, and then \\(8\\)."),
        ("8", "\\[ 2^3 = 8 \\]"),
        ("8", "ANSWER: 8\n"),
        ("8", "Answer: 7\nAnswer: 8"),
    ),
    *(
        ("\\frac{3}{4}", "The result is $\\frac{6}{8}$."),
        ("0.75", "The answer is 75%."),
        ("1000", "The answer is 1,000"),
    ),
    *(
        ("\\boxed{11}", "11"),
        ("The answer: \\boxed{11}", "= 11"),
        ("(3, \\infty)", "(3,\\infty)"),
        ("1", "\\boxed{1.0}"),
    ),
    *(("\\frac{\\sqrt{3}}{2}", "\\sqrt{3}/2"), ("e^{2}", "e^2"), ("\\ln 2", "\\ln(2)"), ("2x", "2*x"), ("2x", "x*3")),
    *(
        ("30^\\circ", "30"),
        ("\\$5", "5"),
        ("17", "17 dollars"),
        ("y = 2x + 1", "2x+1"),
        ("100000000000", "99999999999"),
    ),
)


def math_cases() -> Asked:
    """Return pairs of a mathematical target and an answer, equal or not."""
    return Asked(
        [task_of(0, ["generate"], ["math"])],
        [{"question": f"[{row}]", "answer": wanted} for row, (wanted, _) in enumerate(_SOLVED)],
        [[said] for _, said in _SOLVED],
        with_prompts=False,
    )


def exported_cases() -> dict[str, Asked]:
    """Return benchmarks that `task export` writes of rows of one's own: with options, and with answers as text."""
    options = {"A": "a {x}", "B": "b", "C": "c"}
    rows = {
        "options": [{"question": f"[{n}] Which {{x}}?", **options, "answer": "ABC"[n]} for n in range(3)],
        "texts": [{"question": f"[{n}] What {{x}}?", "answer": ["4", "a b", "No."][n]} for n in range(3)],
    }
    answers = {"options": [["ANSWER: A"], ["ANSWER: C"], ["C"]], "texts": [["4"], ["a  b"], ["no"]]}
    cases = {}
    for name, listed in rows.items():
        with TemporaryDirectory() as folder:
            file = Path(folder, f"{name}.jsonl")
            file.write_text("".join(json.dumps(row) + "\n" for row in listed), encoding="utf-8")
            (task,) = Catalog.open(lm_eval=False).select([str(file)]).tasks
            made = exported(bind(task, BindOptions(num_fewshot=0)), name)
        written = [json.loads(line) for line in made.rows.splitlines()]
        cases[f"exported {name}"] = Asked(yaml.safe_load(made.eval_yaml)["tasks"], written, answers[name])
    return cases


_REPLIES = (
    *(
        "GRADE: C",
        "It is.\n\nGRADE: I",
        "grade : p",
        "GRADE: Correct.",
        "GRADE: incorrect",
        "GRADE: PARTIAL",
        "GRADE: CI",
    ),
    *("GRADE: C\nNo:\nGRADE: I", "GRADE: I, and so GRADE: C!", "downgrade: C", "GRADE: GRADE: C", "GRADE:", "C", ""),
    *("GRADE:\u200b C", "**GRADE: C**", "GRADE: X", "GRADE: C GRADE: X", "GRADE: N", "SCORE 1", "SCORE 0.25 GRADE: I"),
    *(
        "GRADE: CI",
        "SCORE good",
        "SCORE yes",
        "SCORE C",
        "SCORE P",
        "SCORE 0 SCORE 1",
        "GRADE C",
        "GRADE\n:\nI",
        "Grade: C.",
        "my_GRADE: C",
    ),
)
_MARKS = "x [END DATA] [begin data] y"


def graded_cases() -> Asked:
    """Return answers that one grader grades, or three together, by the prompts of each scorer that asks one."""
    draw = random.Random(7)
    args: list[tuple[str, dict[str, Any]]] = [
        ("model_graded_qa", {}),
        ("model_graded_qa", {"partial_credit": True}),
        ("model_graded_fact", {}),
        ("model_graded_fact", {"partial_credit": True, "model": "judge/1"}),
        ("model_graded_qa", {"template": "{topic}|{n}|{question}|{answer}|{criterion}|{{x}}|{instructions}"}),
        ("model_graded_qa", {"instructions": "Say GRADE: {letter}, please.", "partial_credit": True}),
        ("model_graded_qa", {"grade_pattern": r"SCORE (\S+)"}),
        ("model_graded_qa", {"model": ["judge/0", "judge/1", "judge/2"]}),
        ("model_graded_qa", {"model": ["judge/2", "judge/0"], "reducer": "mode", "partial_credit": True}),
    ]
    return Asked(
        [
            task_of(number, ["generate"], [step(name, **own)], fields={"metadata": ["topic", "n"]})
            for number, (name, own) in enumerate(args)
        ],
        [
            {"question": f"[{row}] {STRANGE if row == 1 else _MARKS}", "answer": _MARKS if row == 2 else "Rome {x}",
             "topic": [_MARKS, {"k": _MARKS}] if row == 2 else _MARKS, "n": row}
            for row in range(len(_REPLIES))
        ],
        [[f"{_MARKS if row == 3 else 'Rome'} {{y}}"] for row in range(len(_REPLIES))],
        with_prompts=False,
        grades=[[reply, draw.choice(_REPLIES[:4]), draw.choice(_REPLIES[:4])] for reply in _REPLIES],
    )  # fmt: skip


def graded_conversations() -> Asked:
    """Return answers that are graded with their conversation, after a critique, or several of them to a question."""
    draw = random.Random(45)  # one row has two grades of four, one three right ones
    history = {"include_history": True}
    speaking = [step("system_message", template="Be brief."), step("user_message", template="And {n}?"), "generate"]
    given: list[tuple[list[Any], dict[str, Any], dict[str, Any]]] = [
        (["generate"], history, {}),
        (speaking, history, {}),
        (["generate", "self_critique"], {}, {}),
        ([*speaking, "self_critique"], {**history, "partial_credit": True}, {}),
        *(
            (["generate"], {**history, "partial_credit": True}, {"epochs": 4, "epoch_reducer": reducer})
            for reducer in ("max", "mode", "median", "pass_at_2", "at_least_3")
        ),
    ]
    return Asked(
        [
            task_of(number, chain, [step("model_graded_fact", **own)], fields={"metadata": ["n"]}, **more)
            for number, (chain, own, more) in enumerate(given)
        ],
        [{"question": f"[{row}] {_MARKS}", "answer": "Rome", "n": f"[{row}]"} for row in range(4)],
        [[f"[{row}] says {number} {_MARKS}" for number in range(4)] for row in range(4)],
        with_prompts=False,
        grades=[[draw.choice(["GRADE: C", "GRADE: P", "GRADE: I", "Hm."]) for _ in range(4)] for _ in range(4)],
    )


GRADED = {"graded": graded_cases(), "conversations": graded_conversations()}
CASES = {"solvers": SOLVERS, "no topic": WITHOUT_TOPIC, "scorers": scorer_cases(), "choice": choice_cases(),
         "epochs": epoch_cases(), "images": IMAGES, "literal": LITERAL, "critiques": CRITIQUES, "math": math_cases(),
         **exported_cases()}  # fmt: skip


def ask_inspect(cases: Mapping[str, Asked], folder: Path) -> dict[str, Any]:
    """Return what inspect asks and gives for each of the cases."""
    given = [
        {
            "eval_yaml": each.eval_yaml,
            "rows": each.rows,
            "answers": each.answers,
            "prompts": each.with_prompts,
            "grades": each.grades,
        }
        for each in cases.values()
    ]
    return dict(zip(cases, oracle("inspect", given, folder), strict=True))


def row_in(text: str) -> int:
    """Return the row that a prompt is of."""
    return int(re.findall(r"\[(\d+)\]", text)[0])


GRADES: Mapping[Any, float] = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's grade of an answer -> score; its reducers max and mode return grades."""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What inspect asks and gives for all cases."""
    return ask_inspect({**CASES, **GRADED}, tmp_path_factory.mktemp("inspect"))


def prompts_of(bound: BoundTask, answers: Sequence[Sequence[str]]) -> list[Any]:
    """Return the messages of each row's requests, as the oracle writes them."""
    return [
        [[[message.role, content_of(message)] for message in request.messages] for request, _ in turns]
        for turns in turns_of(bound, answers)
    ]


def turns_of(bound: BoundTask, answers: Sequence[Sequence[str]]) -> Iterator[list[tuple[Request, list[Output]]]]:
    """Yield each row's requests with their outputs; a conversation has one for each of the row's answers."""
    for sample, said in zip(bound.samples(), answers, strict=True):
        turns: list[tuple[Request, list[Output]]] = []
        request: Request | None = bound.request(sample)
        while request is not None:
            texts = said[request.turn :] if bound.is_conversation else said
            outputs = [Output(request.id, 0, at, text=text) for at, text in enumerate(texts[: request.n_outputs])]
            turns.append((request, outputs))
            request = bound.next(request, sample, outputs) if bound.is_conversation else None
        yield turns


def content_of(message: Message) -> Any:
    """Return a message's text, or the texts and images of one with images."""
    if not message.images:
        return message.text
    return [part.text if isinstance(part, TextPart) else {"image": PIXEL} for part in message.parts]


def scores_of(bound: BoundTask, answers: Sequence[Sequence[str]]) -> list[dict[str, tuple[float | None, Any]]]:
    """Return each row's scores, by scorer, with what was compared."""
    rows = []
    for sample, turns in zip(bound.samples(), turns_of(bound, answers), strict=True):
        own: dict[str, tuple[float | None, Any]] = {}
        for score in (score for request, outputs in turns for score in bound.score(request, sample, outputs)):
            assert isinstance(score.detail, dict)
            own[split_reduced(score.metric)[0].removeprefix("inspect_")] = (score.value, score.detail["extracted"])
        rows.append(own)
    return rows


@needs_oracle("inspect")
@pytest.mark.parametrize("name", CASES)
def test_prompts_and_scores_are_those_of_inspect(name: str, theirs: dict[str, Any], tmp_path: Path) -> None:
    """Every request, every answer as it was read, and every score of a row is that of inspect, task by task."""
    case = CASES[name]
    bound = case.bound(tmp_path / "made")
    assert len(bound) == len(case.tasks) == len(theirs[name])
    differing = []
    for task, own, their in zip(case.tasks, bound, theirs[name], strict=True):
        assert "error" not in their, (task, their)
        if case.with_prompts:
            assert prompts_of(own, case.answers) == their["prompts"], task
        ours = scores_of(own, case.answers)
        for row, (scores, graded) in enumerate(zip(ours, their["graded"], strict=True)):
            assert scores.keys() == graded.keys()
            for scorer, (value, extracted) in scores.items():
                said = [answer for _, answer in graded[scorer]]
                listed = extracted if own.task.repeats > 1 else [extracted]
                read = ["" if each == "[invalid]" else each for each in listed]
                wanted = their["reduced"][scorer][row]
                is_read_so = read == said or scorer == "math"  # of which inspect keeps more than it compares
                if value is None or abs(value - GRADES.get(wanted, wanted)) > 1e-12 or not is_read_so:
                    differing.append((task["scorers"], case.rows[row], case.answers[row], value, wanted, read, said))
        for scorer, values in their["values"].items():
            mean = sum(scores[scorer][0] or 0.0 for scores in ours) / len(ours)
            assert mean == pytest.approx(values.get("accuracy", values.get("mean")))
    assert differing == []


def graded_by(metric: MetricSpec, answered: Answered, replies: Sequence[str]) -> tuple[str, Result]:
    """Return the prompt that a metric's graders get, and the result of their replies."""
    scorer = ModelGraded(metric)
    made = []
    for reply in replies:
        asking = scorer.steps(answered)
        prompt = next(asking)
        with pytest.raises(StopIteration) as ended:
            asking.send(reply)
        made.append(ended.value.value)
    return prompt, (made[0] if len(made) == 1 else scorer.combined(made))[0]


@needs_oracle("inspect")
def test_grades_of_a_second_model_are_those_of_inspect(theirs: dict[str, Any], tmp_path: Path) -> None:
    """The grader's prompt, each grade and each score are inspect's; what inspect leaves unscored is no verdict here.

    A grade that is no number or letter of inspect's, which it counts as wrong, is no verdict here either.
    """
    case = GRADED["graded"]
    strange = 0
    for task, bound, their in zip(case.tasks, case.bound(tmp_path / "made"), theirs["graded"], strict=True):
        assert "error" not in their, (task, their)
        (metric,) = bound.metrics
        named: Any = metric.kwargs.get("models", ["judge/0"])
        graders = [str(name).partition("/")[2] for name in named]
        ((_, reduced),) = their["reduced"].items()
        for row, sample in enumerate(bound.samples()):
            request = bound.request(sample)
            answered = Answered(
                Row(str(row), request.prompt, request.target, metadata=sample.row), case.answers[row][0]
            )
            prompt, result = graded_by(metric, answered, [case.grades[row][int(grader)] for grader in graders])
            assert their["asked of graders"][row] == {grader: [prompt] for grader in graders}, task
            ((grade, _),) = next(iter(their["graded"][row].values()))
            assert (result.metadata["grade"], result.value is None) == (grade, result.value is None), (task, row)
            if grade is not None and result.value is None:
                strange += 1
                assert reduced[row] == 0.0
            else:
                assert result.value == (None if grade is None else reduced[row]), (task, row)
            assert (result.comment is None) == (result.value is not None)
    assert strange == 1


@needs_oracle("inspect")
def test_runs_are_graded_as_by_inspect(theirs: dict[str, Any], tmp_path: Path) -> None:
    """A run asks its grader what inspect asks, conversations included, and reduces several grades alike.

    Where so few replies have a grade that a reducer needs more, inspect counts `at_least` as wrong; it is none here.
    """
    case, folder = GRADED["conversations"], tmp_path / "made"
    case.bound(folder)
    n_none = 0
    for task, their in zip(case.tasks, theirs["conversations"], strict=True):
        assert "error" not in their, (task, their)
        n_asked, is_repeated = Counter[str](), "epochs" in task

        def answer(text: str, n_asked: Counter[str] = n_asked) -> str:
            row = row_in(text)
            n_asked[str(row)] += 1
            return case.answers[row][n_asked[str(row)] - 1]

        def grade(text: str, *, is_repeated: bool = is_repeated) -> str:
            which = int(text.rpartition(" says ")[2][0]) if is_repeated else 0
            return case.grades[row_in(text)][which]

        store = str(tmp_path / f"{task['id']}.sqlite")
        with judging_server(answer) as model, judging_server(grade) as judge:
            run = assaymark.evaluate(
                "local-chat-completions", f"{folder}/{task['id']}", model_args=model.arguments,
                judge="local-chat-completions", judge_args=judge.arguments, store=store,
            )  # fmt: skip
        asked = [text for of_row in their["asked of graders"] for text in of_row["0"]]
        assert sorted(judge.seen) == sorted(asked), task
        last = 2 if "self_critique" in str(task["solvers"]) else 0
        scores = {
            record.request.sample_index: record.scores[-1].value
            for record in run.samples(run.row.tasks[0]) if record.request.turn == last
        }  # fmt: skip
        ((_, reduced),) = their["reduced"].items()
        for row, wanted in enumerate(reduced):
            if scores[row] is None and wanted is not None:
                n_none += 1
                assert (wanted, task["epoch_reducer"][:8]) == (0.0, "at_least")
            else:
                assert scores[row] == (None if wanted is None else pytest.approx(GRADES.get(wanted, wanted))), (
                    task,
                    row,
                )
    assert n_none > 0
