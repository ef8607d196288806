"""Drafted prompts: what a model writes, what a person accepts, what models are asked, and what a study compares."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from assaymark.arena.studies.design import design_study
from assaymark.arena.studies.drafts import Candidate, cleaned, draft_prompts, read_drafts, write_drafts
from assaymark.arena.studies.prompts import ask_study, draft_study
from assaymark.arena.studies.study_file import read_study, write_example
from assaymark.cli.main import main
from assaymark.errors import DataError, UsageError
from assaymark.hosting.chat import PLAIN
from assaymark.models.fake import FakeModel
from assaymark.models.plain_prompts import PLAIN_FORM, STOP, PromptWriter
from assaymark.records import Message, Output, Request

SAID = ["Tell me about owls.", "1. Tell me about OWLS!", "  ", "“Write a poem.”", "x" * 3000, "Sum 2 and 3 please now."]


class Drafter(FakeModel):
    """Says texts in order, fails where the text is None, and keeps what it was asked."""

    def __init__(self, said: Sequence[str | None]) -> None:
        super().__init__()
        self.said = list(said)
        self.seen: list[Request] = []

    def answer(self, requests: Sequence[Request], **_: Any) -> Iterator[Output]:
        """Answer in the order of the list; from its end on with nothing."""
        for request in requests:
            text = self.said[len(self.seen)] if len(self.seen) < len(self.said) else ""
            self.seen.append(request)
            yield Output(request.id, 0, text=text, error="broken" if text is None else None)


class BaseModel(Drafter):
    """A model without chat template."""

    def render(self, *_: Any, **__: Any) -> str:
        """Refuse, as a tokenizer without template does."""
        raise UsageError("no chat template")


def accept(path: Path, *numbers: int) -> None:
    """Accept candidates of a file by their number."""
    content = yaml.safe_load(path.read_text())
    for number in numbers:
        content["candidates"][number]["accepted"] = True
    path.write_text(yaml.safe_dump(content))


def test_empty_long_and_repeated_drafts_are_dropped_and_asked_for_again() -> None:
    """Three rounds at most; what remains is different from each other and from the study's own prompts."""
    result = draft_prompts(PromptWriter(Drafter([*SAID, None])), {"animals": 5}, known=["Write a poem"])
    assert [candidate.prompt for candidate in result.candidates] == ["Tell me about owls.", "Sum 2 and 3 please now."]
    assert not any(each.accepted for each in result.candidates)
    assert result.dropped == {"near-duplicate": 2, "empty": 1 + 5, "too long": 1, "failed": 1}


def test_texts_are_cleaned() -> None:
    """Numbering and quotation marks around the whole go; those inside stay."""
    assert cleaned(' "Why?" ') == "Why?"
    assert cleaned("Request 3: - Why?") == "- Why?"
    assert cleaned('2) Say "hello" and "bye"') == 'Say "hello" and "bye"'


@pytest.mark.parametrize("kind", [Drafter, BaseModel])
def test_the_fake_model_and_a_base_model_draft(kind: type[Drafter], tmp_path: Path) -> None:
    """A chat model gets one instruction, a base model a list to continue; the file has what was sent."""
    study = write_example(tmp_path / "s")
    model = kind([f"Prompt number {n} of its own kind" for n in range(40)])
    path, result = draft_study(study, model, count=2)
    assert [candidate.category for candidate in result.candidates] == [
        name for name in ("writing", "Fermi", "generic", "counterfactual") for _ in range(2)
    ]
    content = yaml.safe_load(path.read_text())
    assert content["sent"]["writing"] == "".join(model.seen[0].segments)
    if kind is BaseModel:
        assert content["form"] == "plain"
        assert content["sent"]["writing"].endswith("Kind: writing\nRequest 1:")
    else:
        assert content["sent"]["writing"].startswith("user: Write one request")
    assert read_drafts(path) == result.candidates
    with pytest.raises(UsageError, match="exists; name another file"):
        draft_study(study, model)


def test_a_study_compares_what_was_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """None accepted: one line and no study; some accepted: the others are left out, with a line."""
    study, prompts = write_example(tmp_path / "s"), tmp_path / "s" / "prompts.yaml"
    study.write_text(study.read_text().replace("# prompts: ", "prompts: ").replace("quotas: {", "# {"))
    candidates = (Candidate("writing", "Write a line about snow."), Candidate("Fermi", "How many cats are in Rome?"),
                  Candidate("generic", "What is in a stew?"))  # fmt: skip
    model = Drafter([candidate.prompt for candidate in candidates])
    draft = draft_prompts(PromptWriter(model), {each.category: 1 for each in candidates})
    write_drafts(prompts, draft)
    assert main(["study", "check", str(study)]) == DataError.exit_code
    error = capsys.readouterr().err
    assert "none of 3 prompts is accepted; read them and set `accepted: true`" in error
    assert error.count("\n") == 1
    accept(prompts, 0, 1)
    with pytest.raises(DataError, match=r"no accepted prompt of prompts\.yaml has answers in `answers`"):
        design_study(read_study(study))
    answers = study.parent / "answers.jsonl"
    for name in ("one", "two"):
        asked = ask_study(prompts, Drafter([f"{name} of snow", f"{name} of cats"]), answers, name=name)
        assert (asked.n, asked.n_not_accepted, asked.failures) == (2, 1, ())
    text = study.read_text().replace("# models: [one, other]", "models: [one, two]").replace("raters: 3", "raters: 4")
    study.write_text(text)
    design = design_study(read_study(study))
    assert [item["prompt"] for item in design.plan["items"][:-1]] == [result.prompt for result in candidates[:2]]
    assert [item["category"] for item in design.plan["items"][:-1]] == ["writing", "Fermi"]
    assert design.notes == ("prompts.yaml: 1 of 3 prompts are not accepted, and left out",)
    assert main(["study", "check", str(study)]) == 0
    assert "1 of 3 prompts are not accepted" in capsys.readouterr().err


def test_base_models_are_asked_plainly_and_what_was_sent_is_stored(tmp_path: Path) -> None:
    """A transcript without template, ended at the next `User:`, as in `assaymark chat`; another by its template."""
    prompts, answers = tmp_path / "p.yaml", tmp_path / "a.jsonl"
    write_drafts(prompts, draft_prompts(PromptWriter(Drafter(["Why is the sky blue?"])), {"generic": 1}))
    accept(prompts, 0)
    base = BaseModel([" It scatters light. "])
    assert ask_study(prompts, base, answers, name="base").form == "plain"
    assert base.seen[0].queries[0].settings.stop == STOP  # type: ignore[union-attr]
    assert base.seen[0].messages == ()
    assert ask_study(prompts, FakeModel(), answers, name="chat").form == "template"
    assert ask_study(prompts, FakeModel(), answers, name="marked", is_base=True).form == "plain"
    rows = {row["generator"]: row for row in map(json.loads, answers.read_text().splitlines())}
    assert rows["base"]["sent"] == rows["marked"]["sent"] == "User: Why is the sky blue?\nAssistant:"
    assert rows["base"]["output"] == "It scatters light."
    assert rows["chat"]["sent"] == "user: Why is the sky blue?\nassistant:"
    assert PLAIN_FORM.format(prompt="Hi") == PLAIN.render([Message.of_text("user", "Hi")])
    assert PLAIN.stop == STOP


def test_a_failed_request_is_no_answer_and_asked_again(tmp_path: Path) -> None:
    """It is counted and has no row; the same command asks only for it."""
    prompts, answers = tmp_path / "p.yaml", tmp_path / "a.jsonl"
    texts = ["Why is the sky blue?", "How far is the Moon?"]
    write_drafts(prompts, draft_prompts(PromptWriter(Drafter(texts)), {"generic": 2}))
    accept(prompts, 0, 1)
    first = ask_study(prompts, Drafter(["Light.", None]), answers, name="m")
    assert (first.n, first.failures) == (1, ("broken",))
    assert "1 failed; the same command asks them again" in first.line("a.jsonl")
    again = Drafter(["Far."])
    second = ask_study(prompts, again, answers, name="m")
    assert (second.n, second.n_stored, len(again.seen)) == (1, 1, 1)
    assert [json.loads(line)["output"] for line in answers.read_text().splitlines()] == ["Light.", "Far."]


def test_each_answer_is_stored_as_it_arrives_and_one_process_adds_at_a_time(tmp_path: Path) -> None:
    """What a killed process had is there, a half-written line is not; a second process is refused meanwhile."""
    prompts, answers = tmp_path / "p.yaml", tmp_path / "a.jsonl"
    write_drafts(prompts, draft_prompts(PromptWriter(Drafter(["Why is it so?", "How far is it?"])), {"generic": 2}))
    accept(prompts, 0, 1)

    class Dying(Drafter):
        def answer(self, requests: Sequence[Request], **_: Any) -> Iterator[Output]:
            yield next(iter(super().answer(requests[:1])))
            with pytest.raises(UsageError, match="another process adds answers"):
                ask_study(prompts, Drafter([]), answers, name="m")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask_study(prompts, Dying(["Because."]), answers, name="m")
    with answers.open("a") as file:
        file.write('{"instruction": "half')
    asked = ask_study(prompts, Drafter(["Far."]), answers, name="m")
    assert (asked.n, asked.n_stored) == (1, 1)
    assert [json.loads(line)["output"] for line in answers.read_text().splitlines()] == ["Because.", "Far."]


def test_a_base_model_behind_a_chat_endpoint_is_refused() -> None:
    """The endpoint would apply a template of its own."""

    class Endpoint(FakeModel):
        takes_messages = True

    with pytest.raises(UsageError, match="applies its own template; ask a base model through completions"):
        _ = PromptWriter(Endpoint(), is_base=True).form
    assert PromptWriter(Endpoint()).form == "messages"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("candidates: 3", "has no list `candidates`"),
        ("candidates: [{category: a, prompt: ''}]", "candidate 1: expected category and prompt as texts"),
        ("candidates: [{category: a, prompt: b, accepted: maybe}]", "`accepted` is 'maybe'; expected true or false"),
        ("[", "cannot be read"),
    ],
)
def test_files_of_drafts_are_checked(text: str, expected: str, tmp_path: Path) -> None:
    """What, where and what was expected."""
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=expected):
        read_drafts(path)


def test_a_model_that_writes_nothing_writes_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that says why; no file that would look like a draft."""
    study = write_example(tmp_path / "s")
    with pytest.raises(DataError, match=r"drafted no usable prompt \(12 empty\)"):
        draft_study(study, Drafter([]), count=1)
    assert not (study.parent / "prompts.yaml").exists()
    with pytest.raises(UsageError, match="is not a directory"):
        draft_study(study, Drafter([]), output=tmp_path / "absent" / "p.yaml")
    assert main(["study", "draft", str(study), "--with", "fake", "--count", "1"]) == 0
    assert "4 prompts in" in capsys.readouterr().out
    assert main(["study", "ask", str(study.parent / "prompts.yaml"), "--with", "fake", "-o", "a.jsonl"]) == 3
    assert "none of 4 prompts is accepted" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[1]\n"])
def test_a_file_that_holds_no_answers_is_refused(content: bytes, tmp_path: Path) -> None:
    """Before a model is asked, with the file and the remedy; it stays as it is."""
    prompts, answers, model = tmp_path / "p.yaml", tmp_path / "a.jsonl", Drafter(["Light."])
    write_drafts(prompts, draft_prompts(PromptWriter(Drafter(["Why is the sky blue?"])), {"generic": 1}))
    accept(prompts, 0)
    answers.write_bytes(content)
    with pytest.raises(DataError, match=r"name a file of answers \(JSONL\) with -o"):
        ask_study(prompts, model, answers)
    assert answers.read_bytes() == content
    assert model.seen == []


@pytest.mark.slow
def test_a_small_local_model_drafts_and_answers(tmp_path: Path) -> None:
    """The demo model by its template, and marked as a base model as a plain text; both with what was sent."""
    pytest.importorskip("torch")
    from assaymark.runs.demo import demo_model

    study, answers = write_example(tmp_path / "s"), tmp_path / "a.jsonl"
    path, result = draft_study(study, demo_model("small"), count=1)
    assert result.form == "template"
    assert result.candidates
    accept(path, 0)
    for name, is_base in (("chat", False), ("base", True)):
        asked = ask_study(path, demo_model("small"), answers, name=name, max_tokens=16, is_base=is_base)
        assert (asked.n, asked.form) == (1, "plain" if is_base else "template")
    chat, base = map(json.loads, answers.read_text().splitlines())
    assert "<|assistant|>" in chat["sent"]
    assert base["sent"] == PLAIN_FORM.format(prompt=result.candidates[0].prompt)
