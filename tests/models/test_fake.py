"""The fake model: deterministic, cheap, and able to produce the cases that are rare with real models."""

import subprocess
import sys
from dataclasses import replace

import pytest

from assaymark.errors import UsageError
from assaymark.models.create import create_model
from assaymark.models.fake import FakeModel
from assaymark.models.model import Model
from assaymark.records import (
    GenerateQuery,
    GenerationSettings,
    LoglikelihoodQuery,
    Message,
    Output,
    Progress,
    Request,
    RollingQuery,
    TextPart,
)


def requests(n: int = 40) -> list[Request]:
    """Return multiple-choice requests whose target is the index of the correct choice."""
    queries = tuple(LoglikelihoodQuery(i, f" choice {i}") for i in range(4))
    return [Request("t", i, f"sha{i}", (f"question {i}",), queries, target=str(i % 4)) for i in range(n)]


def share_right(outputs: list[Output], sent: list[Request]) -> float:
    """Return how often the target has the highest log-likelihood."""
    right = 0
    for request in sent:
        nats = {o.ask_index: o.total_nats or 0.0 for o in outputs if o.request_id == request.id}
        right += max(nats, key=lambda k: nats[k]) == int(request.target)
    return right / len(sent)


def test_it_is_a_model() -> None:
    """The fake model implements the Protocol."""
    assert isinstance(FakeModel(), Model)


def test_answers_do_not_depend_on_order_or_process() -> None:
    """Each query gets the same number alone, in reverse order and in another process."""
    whole = {(o.request_id, o.ask_index): o.total_nats for o in FakeModel().answer(requests())}
    backwards = {(o.request_id, o.ask_index): o.total_nats for o in FakeModel().answer(requests()[::-1])}
    assert whole == backwards
    code = (
        "from tests.models.test_fake import *; "
        "print([o.total_nats for o in FakeModel().answer(requests(1))] == "
        f"{[whole['t/0/0', i] for i in range(4)]})"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "True\n"


def test_gold_has_the_accuracy_that_is_set() -> None:
    """accuracy=1 is always correct; accuracy=0.5 about half the time above chance."""
    sent = requests(200)
    assert share_right(list(FakeModel(mode="gold").answer(sent)), sent) == 1.0
    half = share_right(list(FakeModel(mode="gold", accuracy=0.5).answer(sent)), sent)
    assert 0.45 < half < 0.8  # 0.5 + a quarter of the rest by chance


def test_gold_knows_options_that_are_numbers_and_lists_of_references() -> None:
    """A target is an option's number before it is its text, and of several references the first is given."""
    options = tuple(LoglikelihoodQuery(i, f" {i + 1}") for i in range(3))
    sent = [Request("t", i, f"sha{i}", ("q",), options, target=str(i)) for i in range(3)]
    assert share_right(list(FakeModel(mode="gold").answer(sent)), sent) == 1.0
    query = GenerateQuery(0, GenerationSettings())
    outputs = FakeModel(mode="gold").answer([Request("t", 0, "sha", ("q",), (query,), target="['a', 'b']")])
    assert [output.text for output in outputs] == ["a"]


def test_constant_ties_all_and_uniform_depends_on_length() -> None:
    """The modes produce ties and length effects."""
    assert {o.total_nats for o in FakeModel(mode="constant").answer(requests())} == {-1.0}
    output = next(FakeModel(mode="uniform").answer(requests()))
    assert output.total_nats == -len(" choice 0")


def test_failures_have_an_error_and_no_number() -> None:
    """fail=0.5 fails about half the queries; each is marked."""
    outputs = list(FakeModel(fail=0.5).answer(requests(100)))
    failed = [o for o in outputs if o.error]
    assert 120 < len(failed) < 280
    assert all(o.total_nats is None and o.error_kind == "Permanent" for o in failed)


def test_it_generates_rolls_and_reports() -> None:
    """Repeats give different texts, rolling gives a number, and progress reaches the end."""
    sent = Request("t", 0, "s", ("hi",), (GenerateQuery(0, GenerationSettings(repeats=3)), RollingQuery(1, "abc")))
    seen: list[Progress] = []
    outputs = list(FakeModel().answer([sent], observe=seen.append))
    assert len({o.text for o in outputs if o.text}) == 3
    assert outputs[-1].total_nats == -3.0
    assert (seen[-1].n_outputs_done, seen[-1].n_tokens_done) == (4, seen[-1].n_tokens_asked)
    assert "".join(FakeModel().stream(sent)).strip() == outputs[0].text


def test_the_cache_is_used() -> None:
    """Cached outputs are not computed again."""
    model = FakeModel()
    stored = {str(o.cache_key): o for o in model.answer(requests(3))}

    class Known:
        def find(self, keys: list[str]) -> dict[str, Output]:
            return {key: stored[key] for key in keys if key in stored}

    n_before = model.n_requested
    again = list(model.answer(requests(4), cache=Known()))  # type: ignore[arg-type]
    assert model.n_requested == n_before + 4
    assert [replace(o, from_cache=False) for o in again[:12]] == list(stored.values())


def test_arguments_of_other_models_are_accepted() -> None:
    """Arguments of local models are ignored; a misspelt one of its own is refused."""
    model = create_model("dummy", "pretrained=x,dtype=float32,batch_size=8", add_bos_token=False, too_long="cut")
    assert model.identity == FakeModel().identity
    with pytest.raises(UsageError, match="accuracy"):
        create_model("fake", "acuracy=0.5")
    with pytest.raises(UsageError, match="gold"):
        create_model("fake", "mode=golden")


def test_chats_are_rendered() -> None:
    """A chat becomes lines; one to be continued is left open."""
    chat = [Message("user", (TextPart("a"),))]
    assert FakeModel().render(chat) == "user: a\nassistant:"
    assert FakeModel().render(chat, continue_final=True) == "user: a"
