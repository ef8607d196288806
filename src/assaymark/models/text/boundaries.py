r"""Find positions where a text can be split so that encoding the parts gives exactly the tokens of the whole text.

Prompts repeat themselves: the same shots precede every question. They need encoding only once if a tokenizer provably
never lets a token cross a certain kind of position. The position used here is a single space between two visible
characters (`a| b`, the space going to the right). The proof is based on the tokenizer's own description:

- Byte-level BPE: the pre-tokenizer's pattern is parsed, and no alternative may match a visible character
  followed by a space. Then every match ends before the space, with or without the text after it.
- BPE over the whole text (SentencePiece's): no entry of the vocabulary may hold a visible character followed by the
  space's symbol. Then no merge crosses the position, and merges on either side are independent of each other.

Anything not recognised counts as unsafe; then nothing is split and every text is encoded whole.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from assaymark.records import JsonValue
from assaymark.records.json_values import object_at, object_of, objects_of

SPACE = " "
SPACE_SYMBOL = "▁"
# One element of a pattern: a class, an escape, a group, an anchor or a character, and its quantifier.
ATOM = re.compile(
    r"(?P<look>\(\?!\\S\))"
    r"|(?P<group>\((?:\?i:|\?:)?(?P<inner>[^()\[\]]*)\))"
    r"|(?P<bracket>\[\^?\]?(?:\\.(?:\{[^}]*\})?|[^\]\\])*\])"
    r"|(?P<escape>\\(?:[pP]\{[^}]*\}|.))"
    r"|(?P<char>[^\\()\[\]{}*+?|^$.])"
)
QUANTIFIER = re.compile(r"(?:\{\d+(?:,\d*)?\}|[*+?])[+?]?")
SAFE_ESCAPES = frozenset("Swdrntfv")  # escapes that never match a space: \S \w \d and control characters
PLAIN_PROPERTY = re.compile(r"\\p\{[LNMPS][a-z]?\}")  # letters, numbers, marks, punctuation, symbols


@dataclass(frozen=True, slots=True)
class SplitRule:
    """Where texts may be split for one tokenizer.

    drops_space: the part after a split is passed to the tokenizer without its leading space, because the tokenizer
        itself adds one in front of every text.
    """

    drops_space: bool
    not_before: frozenset[str]  # characters not allowed before the space: last ones of added tokens
    not_after: frozenset[str]  # characters not allowed after it: first ones of added tokens

    def is_safe(self, text: str, at: int) -> bool:
        """Return whether `text` may be split before position `at`, which lies inside the text."""
        if at < 1 or at + 1 >= len(text) or text[at] != SPACE:
            return False
        before, after = text[at - 1], text[at + 1]
        if before.isspace() or after.isspace() or SPACE_SYMBOL in (before, after):
            return False
        return before not in self.not_before and after not in self.not_after

    def first_split(self, text: str) -> int | None:
        """Return the first position where `text` may be split, or None."""
        at = text.find(SPACE, 1)
        while at > 0:
            if self.is_safe(text, at):
                return at
            at = text.find(SPACE, at + 1)
        return None

    def last_split(self, text: str) -> int | None:
        """Return the last position where `text` may be split, or None."""
        at = text.rfind(SPACE)
        while at > 0:
            if self.is_safe(text, at):
                return at
            at = text.rfind(SPACE, 0, at)
        return None


def _alternatives(pattern: str) -> list[str] | None:
    """Return the parts of a pattern between `|` outside brackets and groups; None if brackets are unbalanced."""
    parts, depth, in_class, start, at = [], 0, False, 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 2
            continue
        if in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and depth == 0:
            parts.append(pattern[start:at])
            start = at + 1
        at += 1
    return None if depth or in_class else [*parts, pattern[start:]]


def _escapes(text: str) -> list[str]:
    return re.findall(r"\\(?:[pP]\{[^}]*\}|.)", text)


def _matches(kind: str, text: str) -> tuple[bool, bool]:
    """Return (may match a space, may match a visible character) for one element; if in doubt, both are True."""
    if kind == "char":
        return text == SPACE, not text.isspace()
    if kind == "escape":
        if text == r"\s":
            return True, False
        is_safe = text[1:2] in SAFE_ESCAPES or not text[1:2].isalnum() or bool(PLAIN_PROPERTY.fullmatch(text))
        return not is_safe or text[1:2] == SPACE, text[1:2] not in "rntfv"
    inner = text.removeprefix("[").removeprefix("^").removesuffix("]")
    if "[" in inner or "&&" in inner:
        return True, True
    if text.startswith("[^"):
        return SPACE not in inner and r"\s" not in _escapes(inner), True
    ranges = re.findall(r"([^\\])-([^\\\]])", inner)
    has_space = SPACE in inner or any(low <= SPACE <= high for low, high in ranges)
    has_space = has_space or any(_matches("escape", each)[0] for each in _escapes(inner))
    return has_space, re.sub(r"\\[srntfv]", "", inner).strip() != ""


def _alternative_is_safe(pattern: str) -> bool:
    """Return whether no match of one alternative can contain a visible character followed by a space."""
    at, seen_visible = 0, False
    while at < len(pattern):
        match = ATOM.match(pattern, at)
        if match is None:
            return False
        repeat = QUANTIFIER.match(pattern, match.end())
        at = repeat.end() if repeat else match.end()
        if match["look"] is not None:
            if seen_visible:  # allowed after white space only: a part never ends in white space
                return False
            continue
        if match["group"] is not None:
            if not re.fullmatch(r"[\w'’|]*", match["inner"]):
                return False
            seen_visible = True
            continue
        kind = next(name for name in ("bracket", "escape", "char") if match[name] is not None)
        space, visible = _matches(kind, match[0])
        may_repeat = repeat is not None and repeat[0][0] in "*+{"
        if space and (seen_visible or (visible and may_repeat)):
            return False
        seen_visible = seen_visible or visible
    return True


def pattern_is_safe(pattern: str) -> bool:
    """Return whether no match of a pre-tokenizer's pattern can contain a visible character followed by a space."""
    alternatives = _alternatives(pattern)
    return alternatives is not None and all(_alternative_is_safe(each) for each in alternatives)


def _pre_tokenizer_is_safe(described: Mapping[str, JsonValue]) -> bool:
    kind = described.get("type")
    if kind == "Sequence":
        return all(_pre_tokenizer_is_safe(each) for each in objects_of(described["pretokenizers"], "pretokenizers"))
    if kind == "ByteLevel":
        return True  # GPT-2's own pattern, or none: then it only maps bytes
    if kind == "Digits":
        return True  # splits by character, whatever surrounds it
    if kind == "Split":
        keeps = (described["behavior"], described["invert"]) in {("Isolated", False), ("Removed", True)}
        return keeps and pattern_is_safe(str(object_of(described["pattern"], "pattern").get("Regex") or "."))
    return False


def _parts_words(described: Mapping[str, JsonValue]) -> bool:
    """Return whether a pre-tokenizer matches every space, so that the unmatched rest contains none."""
    if described.get("type") == "Sequence":
        return any(_parts_words(each) for each in objects_of(described["pretokenizers"], "pretokenizers"))
    if described.get("type") == "ByteLevel":
        return bool(described.get("use_regex", True))
    pattern = str(object_at(described, "pattern").get("Regex", ""))
    return described.get("type") == "Split" and r"\s+" in (_alternatives(pattern) or [])


def _normaliser_steps(parts: Mapping[str, JsonValue]) -> list[Mapping[str, JsonValue]]:
    if parts.get("normalizer") is None:
        return []
    described = object_of(parts["normalizer"], "normalizer")
    if described.get("type") != "Sequence":
        return [described]
    return objects_of(described["normalizers"], "normalizers")


def _pre_tokenizer(parts: Mapping[str, JsonValue]) -> Mapping[str, JsonValue] | None:
    described = parts.get("pre_tokenizer")
    return None if described is None else object_of(described, "pre_tokenizer")


def _byte_level_rule(parts: Mapping[str, JsonValue]) -> bool | None:
    """Return False (parts keep their space) if a byte-level BPE is provably safe, else None."""
    pre = _pre_tokenizer(parts)
    steps = _normaliser_steps(parts)
    if pre is None or any(step.get("type") != "NFC" for step in steps):
        return None
    return False if _parts_words(pre) and _pre_tokenizer_is_safe(pre) else None


def _whole_text_rule(parts: Mapping[str, JsonValue]) -> bool | None:
    """Return whether parts drop their space if a BPE over the whole text is provably safe, else None."""
    symbol, drops = SPACE, False
    for step in _normaliser_steps(parts):
        if step.get("type") == "Prepend" and step.get("prepend") == SPACE_SYMBOL and not drops:
            drops = True
        elif step.get("type") == "Replace" and step == {
            "type": "Replace",
            "pattern": {"String": SPACE},
            "content": SPACE_SYMBOL,
        }:
            symbol = SPACE_SYMBOL
        else:
            return None
    pre = _pre_tokenizer(parts)
    if pre is not None:
        if pre.get("type") != "Metaspace" or symbol != SPACE or pre.get("replacement") != SPACE_SYMBOL:
            return None
        symbol, drops = SPACE_SYMBOL, pre.get("prepend_scheme", "always") != "never"
    if drops and symbol != SPACE_SYMBOL:
        return None
    vocabulary = object_of(object_of(parts["model"], "model")["vocab"], "vocab")
    crossing = re.compile(f"[^{symbol}]{symbol}")
    if symbol not in vocabulary or any(crossing.search(token) for token in vocabulary):
        return None
    return drops


def split_rule(description: str) -> SplitRule | None:
    """Return where texts may be split for the tokenizer with this `tokenizer.json`; None if nothing is proved."""
    parts = json.loads(description)
    model = parts.get("model") or {}
    if model.get("type") != "BPE" or any(
        model.get(name) for name in ("dropout", "end_of_word_suffix", "continuing_subword_prefix")
    ):
        return None
    contents = [(str(each["content"]), each) for each in parts.get("added_tokens") or []]
    for content, each in contents:
        spaced = content.replace(SPACE_SYMBOL, SPACE)
        if each.get("single_word") or (SPACE in spaced and spaced.strip(SPACE) != "") or spaced in {SPACE, ""}:
            return None
    rules: tuple[Callable[[Mapping[str, object]], bool | None], ...] = (_byte_level_rule, _whole_text_rule)
    whole_text_ok = not model.get("ignore_merges")
    for rule in rules:
        if rule is _whole_text_rule and not whole_text_ok:
            continue
        drops = rule(parts)
        if drops is not None:
            visible = [content.strip() for content, _ in contents if content.strip()]
            return SplitRule(drops, frozenset(c[-1] for c in visible), frozenset(c[0] for c in visible))
    return None
