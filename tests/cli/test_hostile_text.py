"""Hostile text from a server or a data file is plain text in every output: it controls and runs nothing."""

import csv
import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import assaymark
from assaymark.cli.main import main
from assaymark.documents.plain_text import csv_lines, html_text, latex_inline, markdown_inline, printable
from tests.http_servers import JsonHandler, LoopbackServer, serving

ESC, BELL, CSI = "\x1b", "\x07", "\x9b"
CORPUS = {
    "clear the screen": f"{ESC}[2J{ESC}[1;1Hall right",
    "set the title": f"{ESC}]0;owned{BELL}",
    "write the clipboard": f"{ESC}]52;c;cm0gLXJm{BELL}",
    "a link": f"{ESC}]8;;https://example.com{ESC}\\click{ESC}]8;;{ESC}\\",
    "eight-bit control": f"{CSI}31mred{CSI}0m",
    "overwrite the line": "wrong answer\rright answer",
    "backspace": "bad\b\b\bgood",
    "bidirectional": "access\u202e nimda\u2066 user",
    "rich markup": "[bold red]owned[/] [link=https://example.com]x[/link] [/nothing]",
    "emoji code": ":skull: :smile:",
    "script": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "attribute": '" onmouseover="alert(1)" x=\'',
    "end of a comment": "--> ]]> </pre></code></table>",
    "markdown": "[x](javascript:alert(1)) ![i](https://example.com/i.png) **b** | `c` <b>",
    "latex": r"\input{/etc/passwd} $x_1$ 50% & #1 {~^}",
    "formula": '=HYPERLINK("https://example.com";"x")',
    "formula of a command": "@SUM(1+1)*cmd|' /C calc'!A0",
    "plus": "+1+1",
    "minus": "-1-1",
    "nul": "a\x00b",
    "delete": "a\x7fb",
}
NOT_PRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Parsed(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a tag."""
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


class Hostile(JsonHandler):
    """A chat server that answers with the whole corpus."""

    def do_POST(self) -> None:
        """Answer a chat request."""
        self.read_bytes()
        message = {"role": "assistant", "content": "\n".join(CORPUS.values())}
        self.send_json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Return the address of the hostile server."""
    with serving(LoopbackServer(Hostile)) as served:
        yield f"{served.url}/chat/completions"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, made_once: Path, server: str) -> str:
    """Return a store with three runs: multiple choice by two models, and generated answers of the server."""
    folder = tmp_path_factory.mktemp("hostile")
    path = str(folder / "runs.sqlite")
    choices, written = folder / "choices.csv", folder / "written.csv"
    with choices.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["question", "A", "B", "answer"])
        rows.writerows([text.replace("\x00", ""), f"yes {text}".replace("\x00", ""), "no", "AB"[n % 2]]
                       for n, text in enumerate(CORPUS.values()))  # fmt: skip
    with written.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["prompt", "reference"])
        rows.writerows([text.replace("\x00", ""), "x"] for text in list(CORPUS.values())[:4])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAYMARK_HOME", str(folder / "home"))
        patch.setenv("ASSAYMARK_CACHE", str(made_once))
        for seed in ("1", "2"):
            words = ["--model", "fake", "--model_args", f"seed={seed}", "--tasks", str(choices), "--store", path]
            assert main(["run", *words]) == 0
        words = [
            "--model",
            "local-chat-completions",
            "--model_args",
            f"model=m,base_url={server}",
            "--tasks",
            str(written),
        ]
        assert main(["run", *words, "--apply_chat_template", "--store", path]) == 0
    return path


def runs(path: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the ids of the stored runs, the latest first."""
    assert main(["ls", "runs", "--json", "--store", path]) == 0
    return [row["run_id"] for row in json.loads(capsys.readouterr().out)]


COMMANDS = (
    "show {written}",
    "show {written} --samples written",
    "show {written} --json",
    "show {written} --samples written --json",
    "show {first} --samples choices",
    "show {first} --samples choices --wrong --json",
    "compare {first} {second} --flips",
    "compare {first} {second} --markdown",
    "compare {first} {second} --flips --json",
    "diff-prompts {first} {second}",
    "ls runs",
    "card fake-random-1",
    "recommend --for choices",
    "recommend --for choices --json",
    "verify",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_output_cannot_control_the_terminal(command: str, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No command prints a control character of a stored text; JSON still holds the text itself."""
    written, second, first = runs(store, capsys)
    words = command.format(written=written, first=first, second=second).split()
    assert main([*words, "--store", store]) == 0
    printed = capsys.readouterr()
    assert not NOT_PRINTABLE.search(printed.out + printed.err)
    if "--samples" in words and written in words:
        held = json.dumps(json.loads(printed.out), ensure_ascii=False) if "--json" in words else printed.out
        assert "owned" in held
        if "--json" in words:
            assert json.dumps(CORPUS["set the title"])[1:-1] in json.dumps(json.loads(printed.out))
        else:
            assert r"\x1b]0;owned\x07" in printed.out
            assert "[bold red]owned[/]" in printed.out


@pytest.mark.parametrize("ending", ["html", "md"])
def test_a_report_has_no_foreign_markup(
    ending: str, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report of hostile runs has no script, no handler, no image from elsewhere and no control character."""
    path = tmp_path / f"report.{ending}"
    assert main(["report", *runs(store, capsys), "-o", str(path), "--store", store]) == 0
    text = path.read_text(encoding="utf-8")
    assert not NOT_PRINTABLE.search(text)
    result = Parsed()
    result.feed(text if ending == "html" else re.sub(r"^    .*$", "", text, flags=re.MULTILINE))
    assert not result.tags & {"script", "img", "iframe", "object", "link"}
    assert not [name for name in result.attributes if name.startswith("on")]
    for drawn in tmp_path.rglob("*.svg"):
        assert not NOT_PRINTABLE.search(drawn.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CORPUS)
def test_each_text_is_plain_in_each_format(name: str) -> None:
    """In every format the texts of the corpus are plain text."""
    text = CORPUS[name]
    assert not NOT_PRINTABLE.search(printable(text))
    assert not re.search("[<>\"']", html_text(text))
    assert not re.search(r"(?<!\\)[\[\]|*`]", markdown_inline(text))
    assert "<" not in markdown_inline(text)
    assert not re.search(r"(?<!\\)[%$&#_]", latex_inline(text))
    assert r"\input" not in latex_inline(text)
    (_, (cell,)) = csv.reader(io.StringIO("".join(csv_lines(["task"], [{"task": text}])), newline=""))
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


def test_there_is_one_way_to_print() -> None:
    """Commands print through `cli.output`, and tables take their text from `report.console`."""
    for path in Path(assaymark.__file__).parent.rglob("*.py"):
        if "library" in path.parts:
            continue
        source = path.read_text(encoding="utf-8")
        if path.name != "output.py":
            assert "click.echo(" not in source, path
        if path.name != "console.py":
            assert "from rich.text import" not in source, path
