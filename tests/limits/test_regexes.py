"""Regular expressions from files give what `re` gives, or are stopped; a wrong one is reported with its position."""

import importlib.util
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

from assaymark.cli.main import main
from assaymark.errors import DataError
from assaymark.limits import regexes
from assaymark.limits.regexes import RegexTooSlow, cost_of, findall, sub
from tests.conftest import ROOT
from tests.models.server.hostile_server import HostileServer, completion, hostile

CATASTROPHIC = [r"(a+)+b", r"(a|a)*b", r"(a|aa)+$", r"(.*a){20}b", r"(?:a*)*b", r"(\w+\s?)*!", r"((a{1,9}){1,9}){1,9}b"]
TEXTS = (
    "", "42", "The answer is (B).", "So the total is $1,234.50.\n#### 1234", "### a\nAnswer: C\n\nanswer is (D), (E)",
    "\\boxed{\\frac{1}{2}} is the final answer", "['a', 'b'] [invalid] <b>x</b>", "a b c " * 200, "1,2,3 " * 300,
    "é ü 漢字 \ud800 \x00 end", "```python\ndef f():\n    return 1\n```",
    "Final Answer: The final answer is $3$. I hope it is correct.",
)  # fmt: skip


@cache
def patterns() -> tuple[str, ...]:
    """Return the patterns of all filters of the library, and of lm-eval's tasks if it is installed."""
    folders = [ROOT / "src/assaymark/library"]
    if result := importlib.util.find_spec("lm_eval"):
        folders.append(Path(str(result.origin)).parent / "tasks")
    known: dict[str, None] = {}
    for folder in folders:
        for path in [*folder.rglob("*.yaml"), *folder.rglob("*_yaml")]:
            for line in path.read_text("utf-8").splitlines():
                if "regex_pattern:" in line:
                    value = yaml.safe_load(line.split("regex_pattern:", 1)[1].rstrip("}] "))
                    if isinstance(value, str):
                        known[value] = None
    return tuple(known)


def usable() -> Iterator[str]:
    """Yield the patterns that compile."""
    for pattern in patterns():
        try:
            re.compile(pattern)
        except re.error:
            continue
        yield pattern


@pytest.mark.parametrize("steps", [None, -1.0])
def test_every_filter_of_the_library_finds_what_re_finds(steps: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches and replacements equal those of `re`, both with the normal choice of process and all in the other one."""
    if steps is not None:
        monkeypatch.setattr(regexes, "MOST_STEPS", steps)
    n_compared = 0
    for pattern in usable():
        for text in TEXTS:
            assert findall(pattern, text) == re.findall(pattern, text), (pattern, text)
            assert sub(pattern, "-", text, 2) == re.sub(pattern, "-", text, count=2)
            n_compared += 1
    assert n_compared >= 10 * len(TEXTS)


def test_most_ordinary_searches_stay_in_this_process() -> None:
    """Nearly all of the library's own patterns are quick on a short answer and need no other process."""
    own = [each for each in usable() if cost_of(each).steps(60) <= regexes.MOST_STEPS]
    assert len(own) >= 0.7 * len(list(usable()))


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_a_catastrophic_pattern_is_stopped(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of endless backtracking is stopped after its processor time, and later searches work."""
    monkeypatch.setattr(regexes, "_worker", regexes._PatternWorker())
    monkeypatch.setattr(regexes, "MAX_SECONDS", 0.2)
    started = time.monotonic()
    with pytest.raises(RegexTooSlow, match=r"took more than 0.2 s on a text of 61 characters"):
        findall(pattern, "a" * 60 + "?")
    assert time.monotonic() - started < 20
    assert findall(pattern, "aab!") == re.findall(pattern, "aab!")


def test_a_pattern_that_is_always_too_slow_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """After ten texts the pattern counts as wrong: one error states it, at once."""
    monkeypatch.setattr(regexes, "_worker", regexes._PatternWorker())
    monkeypatch.setattr(regexes, "MAX_SECONDS", 0.05)
    for _ in range(regexes.MOST_TIMEOUTS):
        with pytest.raises(RegexTooSlow):
            findall("(a+)+b", "a" * 40)
    with pytest.raises(DataError, match="on 10 texts; correct it") as caught:
        findall("(a+)+b", "b")
    assert not isinstance(caught.value, RegexTooSlow)


def test_searches_in_this_process_are_quick() -> None:
    """The worst text for each pattern that is searched here takes under 2 s: the estimate of its cost is valid."""
    shapes = [r"a*a*b", r"a*a*a*b", r".*.*=x", r"(a|b|ab)(a|ab)*?c", r"a?a?a?a?a?a?a?a?aaaaaaaab", r"(?=a*b)a*b",
              r"(a*)\1b", r"a{0,50}a{0,50}b", r"(?:a|ab)(?:c|bcd)(d*)", r"\s*(\w+)\s*:", r"a*?b|a*c|a*d",
              r"(?<=a)a*b"]  # fmt: skip
    for pattern in shapes:
        sizes = [n for n in (20, 60, 200, 600, 2000, 6000) if cost_of(pattern).steps(n) <= regexes.MOST_STEPS]
        started = time.process_time()
        for size in sizes[-1:]:
            re.findall(pattern, "a" * size)
        assert time.process_time() - started < 2, pattern


def test_many_threads_get_their_own_answers() -> None:
    """The other process is used by one thread at a time: no thread gets another's result."""
    wrong: list[str] = []

    def query(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(50):
            text = "".join(draw.choices("ab ", k=30))
            if findall(r"(?:ab|ba)+", text) != re.findall(r"(?:ab|ba)+", text):
                wrong.append(text)

    threads = [threading.Thread(target=query, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("pattern", ["(", "[a", "(?P<a>x)(?P<a>y)", "a{99999999999}", "(" * 5000 + ")" * 5000, 7, None])
def test_a_pattern_that_does_not_compile_is_one_error(pattern: object) -> None:
    """The error shows the pattern, shortened."""
    with pytest.raises(DataError, match="regular expression") as caught:
        regexes.compiled(pattern)
    assert len(str(caught.value)) < 400


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """Run a server with answers that make patterns backtrack."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with hostile() as running:
        running.answer = lambda _, __: completion("a" * 40 if len(running.bodies) == 2 else "9")
        yield running


def run_task(server: HostileServer, folder: Path, changes: str) -> int:
    """Run a task file with these lines against the server and return the exit code."""
    (folder / "rows.jsonl").write_text("".join(f'{{"q": "{i}?", "a": "9"}}\n' for i in range(4)))
    (folder / "mine.yaml").write_text(
        "task: mine\ndataset_path: json\ndataset_kwargs: {data_files: {test: rows.jsonl}}\ntest_split: test\n"
        'output_type: generate_until\ndoc_to_text: "{{q}}"\ndoc_to_target: "{{a}}"\n'
        "generation_kwargs: {until: []}\nmetric_list:\n  - metric: exact_match\n" + changes
    )
    return main(
        ["run", "--model", "local-chat-completions", "--model_args", f"model=m,base_url={server.url}/chat/completions",
         "--tasks", str(folder / "mine.yaml"), "--apply_chat_template", "--store", str(folder / "s.db")]
    )  # fmt: skip


def test_an_answer_that_makes_a_filter_hang_fails_alone(
    server: HostileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its score fails, with file and filter, and is not wrong; the other answers are scored."""
    slow = "filter_list:\n  - name: mine\n    filter:\n      - function: regex\n        regex_pattern: '((a+)+b|9)'\n"
    assert run_task(server, tmp_path, f"{slow}      - function: take_first\n") == 0
    output = capsys.readouterr().out
    assert "100.0%" in output
    assert main(["show", "last", "--samples", "mine", "--json", "--store", str(tmp_path / "s.db")]) == 0
    output = capsys.readouterr().out
    assert f"task mine ({tmp_path}/mine.yaml), filter mine, sample 1: the regular expression" in output


@pytest.mark.parametrize(
    ("changes", "position"),
    [
        (
            "filter_list: [{name: f, filter: [{function: regex, regex_pattern: '('}]}]\n",
            "filter_list.f.regex.regex_pattern",
        ),
        ("    regexes_to_ignore: ['x', '[']\n", "metric_list.exact_match.regexes_to_ignore"),
        (
            "filter_list: [{name: f, filter: [{function: regex, regex_pattern: 7}]}]\n",
            "filter_list.f.regex.regex_pattern",
        ),
    ],
)
def test_a_wrong_pattern_in_a_task_file_is_found_before_the_run(
    server: HostileServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: str, position: str
) -> None:
    """One line names the file, the position in it and what is wrong with the pattern."""
    assert run_task(server, tmp_path, changes) == 3
    said = capsys.readouterr().err
    assert f"{tmp_path}/mine.yaml: {position}: " in said
    assert len(said.splitlines()) == 1
    assert server.bodies == []


def test_the_worker_ends_with_its_process() -> None:
    """Python says nothing of a process that still runs or a pipe that is open, where it is asked to warn of both."""
    script = r"from assaymark.limits.regexes import findall; print(findall(r'(a+)+$', 'aaa' * 3))"
    ended = subprocess.run([sys.executable, "-W", "always", "-c", script], capture_output=True, text=True, check=True)
    assert (ended.stdout, "still running" in ended.stderr) == ("['aaaaaaaaa']\n", False)
