"""Texts that end inside their reasoning, and prompts that open it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from assaymark.errors import UsageError
from assaymark.models.text.reasoning import TAGS, ends_in_reasoning, opened_reasoning, unremoved_mark
from assaymark.models.text.stops import final_of_text
from assaymark.records import IN_REASONING, REFUSED
from assaymark.runs.demo import demo_model
from assaymark.runs.evaluate import evaluate
from tests.models.server.hostile_server import HostileServer, Reply, completion, hostile


@pytest.mark.parametrize(
    ("text", "think_end", "is_cut", "opened", "expected"),
    [
        ("<think>\nThe answer is B, but let me", "</think>", True, None, True),
        ("<think>\nThe answer is B, but let me", None, True, None, True),
        ("\n<think>\nThe answer is B.", None, False, None, True),  # ended by a stop text, or by the model
        ("[THINK]The answer is B", None, True, None, True),
        ("<Thought>The answer is B", None, True, None, True),
        ('<think type="x">The answer is B', None, True, None, True),
        ("&lt;think&gt;The answer is B", None, True, None, True),
        ("<|thinking|>The answer is B", None, True, None, True),
        ("<inner_monologue>The answer is B", None, True, None, True),
        ("<unused94>thought\nThe answer is B", None, True, None, True),
        ("<unused94>thought\nno<unused95>B", None, True, None, False),
        ("<|channel|>analysis<|message|>The answer is B", None, True, None, True),
        ("<think>\n<think>no</think>\nThe answer is B", None, True, None, True),  # one of two is open
        ("<thinking>about</thinking> B", None, True, None, False),
        ("<thinker>B", None, True, None, False),
        ("<reasoning>B", "</reasoning>", False, None, True),
        ("So the answer is B, but", "</think>", True, None, True),  # the server's template opened it
        ("So the answer is B", "</think>", False, None, False),  # a model that answered without reasoning
        ("So the answer is B, but", None, False, "<think>", True),
        ("So the answer is B</think>A", None, False, "<think>", False),
        ("<think>no</think>\n\nB", "</think>", True, None, False),  # the answer is cut, not the reasoning
        ("<think>no</think>\n\nB", None, False, None, False),
        ("<think>no</think><think>The answer is B", "</think>", True, None, True),
        ("The answer is B", None, True, None, False),
        ("I <think> B", None, True, None, False),
    ],
)
def test_a_text_that_ends_inside_its_reasoning(
    text: str, think_end: str | None, is_cut: bool, opened: str | None, expected: bool
) -> None:
    """A tag opens it, or the prompt has; without either it is the limit of tokens of a model that reasons."""
    final = final_of_text(text, (), think_end)
    assert ends_in_reasoning(final, think_end, is_cut=is_cut, opened=opened) == expected


def test_tags_are_found() -> None:
    """A prompt opens reasoning where it ends with a tag, and an answer with a closing tag still contains it."""
    for tag, end in TAGS.items():
        assert opened_reasoning(f"<|im_start|>assistant\n{tag}\n") == tag
        assert opened_reasoning(f"assistant\n{tag}\n\n{end}\n\n") is None
        assert unremoved_mark(f"{tag}so{end}B") == ("unremoved_reasoning", end)
    assert unremoved_mark("B") is None
    assert unremoved_mark("B<|im_end|>\n<|im_start|>user") == ("unremoved_end", "<|im_end|>")
    assert unremoved_mark("B</s>\n") == ("unremoved_end", "</s>")
    assert unremoved_mark("<s>old</s> B") is None


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HostileServer]:
    """Run a server without a key."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with hostile() as running:
        yield running


@pytest.mark.parametrize("with_option", [True, False])
def test_the_table_says_how_texts_ended(server: HostileServer, tmp_path: Path, with_option: bool) -> None:
    """Nothing in an unfinished text is graded and their number is shown; unremoved reasoning names the option."""
    texts = iter(["<think>no</think>\n\nB", "<think>The answer is B", "B", "B<|im_end|>"])
    server.answer = lambda _, __: completion(next(texts))
    (tmp_path / "q.csv").write_text("question,answer\n" + "".join(f"Question {i}?,B\n" for i in range(4)))
    model_args = {"model": "m", "base_url": server.url, **({"think_end_token": "</think>"} if with_option else {})}
    run = evaluate(
        "local-chat-completions",
        str(tmp_path / "q.csv"),
        model_args=model_args,
        apply_chat_template=True,
        store=tmp_path / "runs.sqlite",
    )
    first, second, *_ = (record.outputs[0] for record in run.samples("q"))
    assert first.text == ("B" if with_option else "<think>no</think>\n\nB")  # a chat's answer is its whole turn
    assert (second.text, second.reasoning, second.finish_reason) == ("", "<think>The answer is B", IN_REASONING)
    assert run.estimate("q").value == (0.5 if with_option else 0.25)
    said = " ".join(run.remarks())
    assert "1 of 4 answers ended while reasoning, and nothing in them was graded; raise max_gen_toks" in said
    assert ("1 answer with </think>" in said and "think_end_token=</think>" in said) != with_option
    assert "1 answer with <|im_end|>: the end of a turn was scored" in said
    assert "'until=<|im_end|>'" in said


def test_the_table_says_what_was_refused_and_who_answered(server: HostileServer, tmp_path: Path) -> None:
    """A refusal is an answer whose text is kept and counted; another model than the one asked for is named."""
    message = {"role": "assistant", "content": None, "refusal": "I cannot help."}
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "model": "other"}
    server.answer = lambda _, __: Reply(json.dumps(body).encode())
    (tmp_path / "q.csv").write_text("question,answer\nWho?,me\n")
    run = evaluate("local-chat-completions", str(tmp_path / "q.csv"), model_args={"model": "m", "base_url": server.url},
                   apply_chat_template=True, store=tmp_path / "runs.sqlite")  # fmt: skip
    (record,) = run.samples("q")
    assert (record.outputs[0].text, record.outputs[0].finish_reason) == ("I cannot help.", REFUSED)
    lines = " ".join(run.remarks())
    assert "q: 1 of 1 answer refused by the model" in lines
    assert "model m was asked for, and the server says that 'other' answered" in lines


@pytest.mark.parametrize("enable_thinking", [None, True, False])
def test_a_template_that_opens_the_reasoning_is_refused_for_options(
    tmp_path: Path, enable_thinking: bool | None
) -> None:
    """With the flag and without, options are not scored as the first words of reasoning; closed, they are scored."""
    pytest.importorskip("transformers")
    folder = shutil.copytree(demo_model("small"), tmp_path / "thinker")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = (
        "{% for m in messages %}{{ m['role'] + ': ' + m['content'] }}{% endfor %}{% if add_generation_prompt %}"
        "{{ '\nassistant: <think>\n' }}{% if enable_thinking is defined and not enable_thinking %}{{ '</think>\n' }}"
        "{% endif %}{% endif %}"
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    for other in folder.glob("chat_template*"):
        other.unlink()
    (tmp_path / "mc.csv").write_text("question,A,B,answer\nIs ice cold?,yes,no,A\nIs fire?,yes,no,B\n")
    model_args = {"pretrained": str(folder)} | ({} if enable_thinking is None else {"enable_thinking": enable_thinking})

    def value() -> float | None:
        run = evaluate("hf", str(tmp_path / "mc.csv"), model_args=model_args, apply_chat_template=True,
                       store=tmp_path / "runs.sqlite")  # fmt: skip
        return run.estimate("mc").value

    if enable_thinking is False:
        assert value() is not None
    else:
        with pytest.raises(UsageError, match=r"the prompt ends with <think>.*enable_thinking=False"):
            value()


def test_reasoning_that_a_server_returns_alone_is_no_answer(server: HostileServer, tmp_path: Path) -> None:
    """A stop text in it, or a parser for another model, ends it so; the score stays, and the table says why."""
    server.answer = lambda _, __: completion("", reasoning_content="So it is B.")
    (tmp_path / "q.csv").write_text("question,answer\nWhich?,B\n")
    run = evaluate(
        "local-chat-completions",
        str(tmp_path / "q.csv"),
        model_args={"model": "m", "base_url": server.url},
        apply_chat_template=True,
        store=tmp_path / "runs.sqlite",
    )
    (output,) = run.samples("q")[0].outputs
    assert (output.text, output.reasoning, output.finish_reason) == ("", "So it is B.", IN_REASONING)
    assert run.estimate("q").value == 0.0
    assert "1 of 1 answer ended while reasoning" in " ".join(run.remarks())
