"""An installed package adds one of everything that can be registered, without a change in assaymark."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from assaymark import registry
from assaymark.store import Store
from tests.arena.pages.arena_voters import ApiVoter
from tests.conftest import ROOT

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the package of this folder, and return an environment in which it is installed."""
    folder = tmp_path_factory.mktemp("plugin")
    source = folder / "source"
    copy = ["cp", "-r", str(HERE), str(source)]  # a build leaves files beside what it builds
    subprocess.run(copy, check=True)
    install = [
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
        str(folder / "site"),
    ]
    subprocess.run([sys.executable, "-m", "pip", *install, str(source)], check=True)
    path = os.pathsep.join([str(ROOT / "src"), str(folder / "site"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "ASSAYMARK_STORE": str(folder / "runs.sqlite"), "COLUMNS": "200"}


# each command's words are a line of standard input; what it printed and its exit code become a line of JSON
COMMANDS = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from assaymark.cli.main import main
for line in sys.stdin:
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = main(json.loads(line))
    print(json.dumps([code, printed.getvalue()]), flush=True)
"""


Assaymark = Callable[..., str]


@pytest.fixture(scope="module")
def assaymark(installed: dict[str, str]) -> Iterator[Assaymark]:
    """Return a function that runs a command where the package is installed and returns what it printed.

    One process runs all of them, which is most of what they cost.
    """
    words = [sys.executable, "-c", COMMANDS]
    with subprocess.Popen(words, env=installed, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def printed(*words: str, code: int = 0) -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{json.dumps(words)}\n")
            process.stdin.flush()
            ended, text = json.loads(process.stdout.readline())
            assert ended == code, text
            return str(text)

        yield printed
        process.communicate(timeout=60)


@contextmanager
def serving(environment: dict[str, str], *words: str) -> Iterator[str]:
    """Run a command that serves pages, and yield the address that it printed."""
    server = subprocess.Popen(
        [sys.executable, "-m", "assaymark", *words, "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        url = re.search(r"http://\S+", server.stdout.readline() if server.stdout else "")
        assert url is not None
        yield url[0]
    finally:
        server.terminate()
        server.wait(20)


@pytest.mark.slow
def test_nothing_of_a_package_is_imported_before_its_use(installed: dict[str, str]) -> None:
    """`--help` lists its command, and `ls tasks` its tasks, without importing it, nor anything heavy."""
    heavy = {"torch", "assaymark_example", "fastapi", "sqlalchemy"}
    for words, listed in ((["--help"], "count-words"), (["ls", "tasks"], "greetings")):
        code = (
            f"import sys; from assaymark.cli.main import main; main({words}); "
            f"sys.exit(str({heavy} & set(sys.modules) or '') or 0)"
        )
        ended = subprocess.run([sys.executable, "-c", code], env=installed, capture_output=True, text=True, check=False)
        assert listed in ended.stdout
        assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_its_task_is_scored_by_its_model_metric_aggregation_and_filter(assaymark: Assaymark) -> None:
    """The task file names all of them as it would name ours, and the value has an interval."""
    (listed,) = json.loads(assaymark("ls", "tasks", "greetings", "--json"))
    assert listed["name"] == "greetings"
    run = json.loads(assaymark("run", "--model", "shortest", "--tasks", "greetings", "--quiet", "--json"))
    (estimate,) = run["estimates"]
    assert (estimate["metric"], estimate["filter"], estimate["n"]) == ("words_in_common", "last", 3)
    assert estimate["value"] == pytest.approx(0.75)  # the mean of the worse half of 1, 1 and 1/2
    assert estimate["low"] <= 0.75 <= estimate["high"]
    assert "lower_half" in assaymark("explain", "words_in_common")


@pytest.mark.slow
def test_its_metric_of_choices_is_computed_from_their_probabilities(assaymark: Assaymark) -> None:
    """Each choice's log-likelihood is minus its length, so the three right ones share the softmax of 3, 5 and 4."""
    run = json.loads(assaymark("run", "--model", "shortest", "--tasks", "colours", "--quiet", "--json"))
    estimates = {each["metric"]: each for each in run["estimates"]}
    assert estimates["acc"]["value"] == pytest.approx(1 / 3)
    assert estimates["gold_probability"]["value"] == pytest.approx(1 / 3)
    assert estimates["gold_probability"]["low"] < 1 / 3 < estimates["gold_probability"]["high"]
    assert "on the right ones" in assaymark("explain", "gold_probability")


def test_unknown_arguments_of_its_model_are_refused(assaymark: Assaymark) -> None:
    """Options of the run reach its factory too and are no mistake; a misspelt argument is."""
    words = ("run", "--model", "shortest", "--model_args", "noize=1", "--tasks", "greetings", "--quiet")
    assert "unknown model argument 'noize'" in assaymark(*words, code=2)


@pytest.mark.slow
def test_its_format_is_written_and_read(assaymark: Assaymark, tmp_path: Path) -> None:
    """`export` finds the writer by the suffix, `import` the reader by the content."""
    assaymark("run", "--model", "shortest", "--tasks", "demo_facts", "--quiet")
    file = tmp_path / "out.points"
    assaymark("export", "last", "-o", str(file))
    assert file.read_text().splitlines()[0] == "points of shortest choice"
    printed = assaymark("import", str(file))
    assert "imported from points" in printed
    assert re.search(r"acc +0 +25\.7%", printed)


@pytest.mark.slow
def test_its_audit_is_stored_and_shown_again(installed: dict[str, str], assaymark: Assaymark) -> None:
    """Its command stores an audit, which `ls audits` lists and `show` shows; without the package both say so."""
    stored = re.search(r"audit (\w+) in", assaymark("count-words", "shortest", "demo_facts"))
    assert stored is not None
    assert "word counts of demo_facts" in assaymark("ls", "audits")
    (count,) = json.loads(assaymark("show", stored[1], "--json").partition("]")[0] + "]")
    assert count["n_prompts"] == 200
    command = [sys.executable, "-c", COMMANDS]
    lines = "".join(f"{json.dumps(words)}\n" for words in (["ls", "audits"], ["show", stored[1]]))
    without = {**installed, "PYTHONPATH": str(ROOT / "src")}
    ended = subprocess.run(command, env=without, input=lines, capture_output=True, text=True, check=True)
    listed, shown = map(json.loads, ended.stdout.splitlines())
    assert (listed[0], stored[1] in listed[1]) == (0, True)
    assert (shown[0], "which no installed package has" in shown[1]) == (2, True)


@pytest.mark.slow
def test_its_pages_and_its_section_are_shown(installed: dict[str, str], assaymark: Assaymark, tmp_path: Path) -> None:
    """A served board has the page, its JSON twin and its link, and the other if asked; a report has the section."""
    assaymark("run", "--model", "shortest", "--tasks", "demo_facts", "--quiet")
    assaymark("report", "last", "-o", str(tmp_path / "report.md"))
    assert "| demo_facts | 200 | 0 |" in (tmp_path / "report.md").read_text()
    with serving(installed, "serve") as url:
        page = httpx.get(f"{url}sizes", timeout=20)
        assert page.status_code == 200
        assert "<td>shortest choice</td>" in page.text
        assert '<a href="/sizes"' in httpx.get(f"{url}boards", timeout=20).text
        runs = httpx.get(f"{url}sizes.json", timeout=20).json()["runs"]
        assert 200 in {run["samples"] for run in runs}
        assert httpx.get(f"{url}notice", timeout=20).status_code == 404
    with serving(installed, "serve", "--notice", "Closed on Friday") as url:
        assert httpx.get(f"{url}notice", timeout=20).text == "Closed on Friday"


def test_its_moderation_refuses_a_question(installed: dict[str, str]) -> None:
    """`arena serve --moderation NAME` shows its reason to the visitor, and asks no model."""
    hosts = ("--endpoint", "a=http://127.0.0.1:1", "--endpoint", "b=http://127.0.0.1:1")
    with (
        serving(installed, "arena", "serve", *hosts, "--moderation", "no_shouting") as url,
        ApiVoter(url.removesuffix("arena")) as voter,
    ):
        battle = voter.begin()["battle"]
        refused = voter.post(f"/arena/battle/{battle}/ask", text="WHO ARE YOU?")
        assert (refused.status_code, "please do not shout" in refused.text) == (400, True)


@pytest.mark.slow
def test_its_scorer_and_its_kind_of_target_are_used(assaymark: Assaymark, tmp_path: Path) -> None:
    """`--recorded FILE` evaluates recorded answers by the scorer, which `--scorers` finds for other targets too."""
    rows = [{"input": "morning", "expected": ""}, {"input": "evening", "expected": ""}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "answers.json").write_text(json.dumps({"morning": "Good morning", "evening": "Leave me alone"}))
    words = ("--tasks", str(tmp_path / "rows.jsonl"), "--quiet", "--json")
    run = json.loads(assaymark("run", "--recorded", str(tmp_path / "answers.json"), *words))
    values = {estimate["metric"]: estimate["value"] for estimate in run["estimates"]}
    assert values["greets"] == 0.5
    (tmp_path / "app.py").write_text("def answer(input):\n    return 'Hello ' + input\n")
    target = ("--target", f"{tmp_path / 'app.py'}:answer", "--scorers", "greets")
    run = json.loads(assaymark("run", *target, *words))
    assert {estimate["metric"]: estimate["value"] for estimate in run["estimates"]}["greets"] == 1.0
    (tmp_path / "answers.json").write_text("[]")
    refused = assaymark("run", "--recorded", str(tmp_path / "answers.json"), *words, code=3)
    assert "expected an object of inputs and answers" in refused


@pytest.mark.slow
def test_its_baseline_is_computed_with_each_run(installed: dict[str, str], assaymark: Assaymark) -> None:
    """It is stored beside the estimates: the share of the file's rows whose answer is the first choice, red."""
    rows = [json.loads(line) for line in (HERE / "assaymark_example" / "tasks" / "colours.jsonl").open()]
    assaymark("run", "--model", "shortest", "--tasks", "colours", "--quiet")
    with Store.open_to_read(installed["ASSAYMARK_STORE"]) as store:
        stored = dict(store.run("last").extra)["first_choice"]
    assert stored == {"colours": pytest.approx(sum(row["colour"] == "red" for row in rows) / len(rows))}


def test_the_package_has_one_of_each_kind() -> None:
    """Every kind that `registry` documents has an entry point in this folder."""
    documented = re.findall(r"^    (\w+) +\S", registry.__doc__ or "", re.MULTILINE)
    entry_points = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]["entry-points"]
    assert len(documented) >= 16
    assert {f"assaymark.{kind}" for kind in documented} == set(entry_points)


def test_the_documentation_shows_this_package() -> None:
    """Every block of `docs/extending.md` stands in a file of the package."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    files = "\n".join(file.read_text() for file in (HERE / "assaymark_example").rglob("*.py"))
    blocks = re.findall(r"```(python|toml|jinja|yaml)\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 8
    texts = {
        "python": files,
        "toml": (HERE / "pyproject.toml").read_text(),
        "jinja": (HERE / "assaymark_example" / "templates" / "sizes.html").read_text(),
        "yaml": (HERE / "assaymark_example" / "tasks" / "greetings.yaml").read_text(),
    }
    for language, text in blocks:
        assert text in texts[language], text
