"""Answers of a required form: JSON, JSON of a schema, or a call of a tool, by llguidance's grammars.

At each step the grammar says which tokens may follow; the engine chooses among them. An answer that ends by itself
(finish reason `stop` or `tool_calls`) has the form; one that reaches max_tokens may be cut. A schema with a keyword
that the grammar cannot follow is refused by that keyword's name.

Source: https://github.com/guidance-ai/llguidance
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from assaymark.hosting.answer_bodies import OfferedTool
from assaymark.hosting.bad_request import BadRequest
from assaymark.limits.nesting import json_kind

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

ANY_OBJECT: Mapping[str, object] = {"type": "object"}
OPTIONS = {"whitespace_flexible": False}  # a model that may write white space between any two tokens may never end
MISSING = "needs llguidance on the host: pip install '.[hosting]'"


@dataclass(frozen=True, slots=True)
class Grammar:
    """The grammar of an answer, in llguidance's form. param: the field of the request that asks for it."""

    text: str
    param: str


def schema_grammar(schema: Mapping[str, object] | None) -> Grammar:
    """Return the grammar of JSON of a schema, or of any object. Raises: BadRequest."""
    return Grammar(f"start: %json {_json(schema, 'response_format')}", "response_format")


def tool_grammar(tools: Sequence[OfferedTool]) -> Grammar:
    """Return the grammar of one call of these functions, as `tool_calls` reads it. Raises: BadRequest."""
    calls = [
        {
            "type": "object",
            "properties": {
                "name": {"const": tool["function"]["name"]},
                "arguments": _closed(tool["function"].get("parameters") or ANY_OBJECT),
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    schema = calls[0] if len(calls) == 1 else {"anyOf": calls}
    call = f'start: "<tool_call>\\n" call "\\n</tool_call>"\ncall: %json {_json(schema, "tools")}'
    return Grammar(call, "tool_choice")


def _closed(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """Return parameters that allow no undeclared argument where they leave it open: a function would not take it."""
    return {"additionalProperties": False, **parameters} if parameters.get("properties") else parameters


def _json(schema: Mapping[str, object] | None, param: str) -> str:
    if schema is not None and not isinstance(schema, Mapping):
        raise BadRequest(f"the schema is a JSON {json_kind(schema)}; expected an object", param)
    return json.dumps({**(ANY_OBJECT if schema is None else schema), "x-guidance": OPTIONS}, ensure_ascii=False)


@dataclass(eq=False)
class GrammarTokens:
    """The tokens of a model, as grammars need them; made for the first request that has one."""

    tokenizer: object
    n_vocab: int
    eos_ids: frozenset[int]

    @cached_property
    def _tokens(self) -> "LLTokenizer":
        try:
            from llguidance.hf import from_tokenizer
        except ImportError:
            raise BadRequest(f"response_format {MISSING}", "response_format") from None
        try:
            return from_tokenizer(self.tokenizer, n_vocab=self.n_vocab, eos_token=sorted(self.eos_ids))
        except ValueError as error:
            raise BadRequest(f"this model's tokenizer takes no grammar: {error}", "response_format") from error

    def matcher(self, grammar: Grammar) -> "Matchers":
        """Return the matcher of a grammar. Raises: BadRequest for one that cannot be followed."""
        from llguidance import LLMatcher

        if not self.eos_ids:
            raise BadRequest("this model has no token that ends an answer, which a required form needs", grammar.param)
        problem = LLMatcher.validate_grammar(grammar.text, self._tokens)
        if problem:
            raise BadRequest(
                f"this host cannot follow the schema: {problem.partition(chr(10))[0][:300]}", grammar.param
            )
        matchers = Matchers(self._tokens, grammar, self.n_vocab)
        if matchers.has_failed(0, ()):
            raise BadRequest("no answer can have the schema: it has no text that ends", grammar.param)
        return matchers


class Matchers:
    """One grammar as several repeats of a prompt follow it. Used by the engine's thread alone."""

    def __init__(self, tokens: "LLTokenizer", grammar: Grammar, n_vocab: int) -> None:
        self._tokens, self._grammar = tokens, grammar
        self._words = np.zeros((1, (n_vocab + 31) // 32), dtype=np.int32)
        self._followed: dict[int, tuple[LLMatcher, int]] = {}  # repeat -> matcher and number of tokens that it has

    def mask(self, repeat: int, tokens: Sequence[int]) -> npt.NDArray[np.int32]:
        """Return which tokens may follow, as the engine takes it. Shapes: result int32 [vocab / 32]."""
        from llguidance.numpy import fill_next_token_bitmask

        fill_next_token_bitmask(self._after(repeat, tokens), self._words)
        words: npt.NDArray[np.int32] = self._words[0]
        return words

    def has_ended(self, repeat: int, tokens: Sequence[int]) -> bool:
        """Return whether nothing but the end may follow."""
        return bool(self._after(repeat, tokens).is_stopped())

    def has_failed(self, repeat: int, tokens: Sequence[int]) -> bool:
        """Return whether the answer cannot end in the form: the schema requires more of it without end."""
        matcher = self._after(repeat, tokens)
        matcher.compute_bitmask()
        return bool(matcher.is_error())

    def _after(self, repeat: int, tokens: Sequence[int]) -> "LLMatcher":
        from llguidance import LLMatcher

        matcher, n_known = self._followed.get(repeat) or (LLMatcher(self._tokens, self._grammar.text), 0)
        if len(tokens) > n_known:
            matcher.consume_tokens(list(tokens[n_known:]))
        self._followed[repeat] = matcher, len(tokens)
        return matcher
