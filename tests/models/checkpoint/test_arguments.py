"""Model arguments: lm-evaluation-harness's spelling, typed, and nothing silently ignored."""

from typing import Any

import pytest

from assaymark.errors import UnknownName, UsageError
from assaymark.models.checkpoint.arguments import local_arguments, parse_arguments


@pytest.mark.parametrize(
    "text",
    [
        "pretrained=gpt2,dtype=float32",
        "pretrained=a/b,revision= main ,trust_remote_code=True",
        "a=1,b=-2,c=1e3,d=0.5,e=None,f=false",
        "revision='123',name=\"x\"",
        "path=a=b=c",
        "",
        "  ",
        "a=1,,b=2",
        "big=12345678901234567890,plus=+5,inf=inf",
    ],
)
def test_the_text_syntax_equals_lm_evals(text: str) -> None:
    """`a=b,c=d` gives the names, values and types that lm-eval gives."""
    utils = pytest.importorskip("lm_eval.utils")
    assert parse_arguments(text) == utils.simple_parse_args_string(text)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ('{"pretrained": "x", "max_length": 5}', {"pretrained": "x", "max_length": 5}),
        (
            'pretrained=x,chat_template_args={"enable_thinking": false, "n": [1, 2]},a=1',
            {"pretrained": "x", "chat_template_args": {"enable_thinking": False, "n": [1, 2]}, "a": 1},
        ),
        ({"pretrained": "x"}, {"pretrained": "x"}),
        (None, {}),
        ("name=it's,b=2", {"name": "it's", "b": 2}),
    ],
)
def test_json_and_mappings_are_accepted(given: Any, expected: dict[str, Any]) -> None:
    """A JSON object, JSON inside a value, or a mapping gives the same as text."""
    assert parse_arguments(given) == expected


@pytest.mark.parametrize("given", ["pretrained", "=x", '{"a": }', "a={1:2}"])
def test_malformed_arguments_are_refused(given: str) -> None:
    """A part that is not name=value, or broken JSON, gives one clear line."""
    with pytest.raises(UsageError, match=r"expected"):
        parse_arguments(given)


def test_existing_command_lines_work_unchanged() -> None:
    """Arguments of model cards that have no effect here are accepted and do not change the identity."""
    plain = local_arguments({"pretrained": "x"})
    old = {
        "pretrained": "x",
        "batch_size": "auto",
        "max_batch_size": 64,
        "logits_cache": False,
        "truncation": True,
        "backend": "causal",
        "low_cpu_mem_usage": True,
        "softmax_dtype": "float32",
        "autogptq": False,
        "delta": None,
        "parallelize": False,
    }
    assert local_arguments({**old, "backend": "default"}) == plain
    assert local_arguments(old).options == plain.options
    assert local_arguments({"pretrained": "x", "use_accelerate": True}).model_kwargs == {"device_map": "auto"}


def test_options_that_change_answers_are_part_of_the_identity() -> None:
    """BOS, prefix token, template variables and quantisation are among the options; others are not."""
    arguments = local_arguments(
        {
            "pretrained": "x",
            "add_bos_token": False,
            "prefix_token_id": 3,
            "enable_thinking": False,
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
            "device": "cpu",
            "window_tokens": 64,
        }
    )
    assert dict(arguments.options) == {
        "add_bos_token": False,
        "prefix_token_id": 3,
        "chat_template_args": {"enable_thinking": False},
        "quantization_config": {
            "quant_method": "bitsandbytes",
            "load_in_4bit": True,
            "bnb_4bit_quant_type": "nf4",
        },
    }


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"dytpe": "float32"}, "dtype"),
        ({"dtype": "flaot32"}, "float32"),
        ({"trust_remote_code": "yes"}, "neither True nor False"),
        ({"max_length": 0}, "whole number from 1"),
        ({"max_length": True}, "whole number from 1"),
        ({"backend": "seq3seq"}, "causal or seq2seq"),
        ({"delta": "other"}, "delta"),
        ({"autogptq": True}, "quantisation"),
        ({"too_long": "drop"}, "cut, drop_shots or error"),
        ({"chat_template_args": "x"}, "JSON object"),
    ],
)
def test_invalid_arguments_are_refused_with_a_remedy(extra: dict[str, Any], message: str) -> None:
    """Each wrong argument is refused with what was expected; a misspelt one with the nearest name."""
    with pytest.raises(UsageError, match=message):
        local_arguments({"pretrained": "x", **extra})


def test_an_unknown_argument_is_an_unknown_name() -> None:
    """No argument is silently ignored."""
    with pytest.raises(UnknownName) as caught:
        local_arguments({"pretrained": "x", "tokeniser": "y"})
    assert "tokenizer" in caught.value.nearest


def test_a_model_must_be_given() -> None:
    """Without pretrained= the message states what to write."""
    with pytest.raises(UsageError, match="pretrained="):
        local_arguments({"dtype": "float32"})
