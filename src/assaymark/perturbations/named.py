"""Perturbations by name, as for `--perturb`, with strength and the user's list, as a plan stores them.

A contrast set has rows that people changed a little so that the answer is another one, from a list of the user. A list
has one JSON object in a line: the columns that change (`row`), and whose they are, by the sample's position (`id`) or
by the value of columns (`where`). Of several for one sample one is drawn, with HELM's generator.
Source: Gardner et al. 2020, arXiv 2004.02709; HELM 63754d05, benchmark/augmentations/contrast_sets_perturbation.py.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Literal

from assaymark.errors import DataError, UnknownName, UsageError
from assaymark.perturbations import rules
from assaymark.perturbations.person_names import Names, NameSwap, names_by_category, names_of
from assaymark.perturbations.rules import GENDER_PRONOUNS, GENDER_TERMS
from assaymark.records import JsonValue, PerturbationPlan, canonical_json
from assaymark.registry import nearest

VERSION = 3  # raise it when the same name would make other texts, or would be applied to other texts of a row
LARGEST_LIST = 2**20  # bytes of a user's file
Family = Literal["robustness", "fairness"]
Replacements = Mapping[str, Sequence[str]]
_CONTRAST_FORM = (
    'lines such as {"id": 7, "row": {"question": "...", "label": 1}}, or with "where": {"question": "..."} for "id"'
)


@dataclass(frozen=True, slots=True)
class _ContrastRow:
    """One changed row: of which sample, and the values of the columns that change."""

    position: int | None
    where: Mapping[str, JsonValue]
    row: Mapping[str, JsonValue]


class _ContrastList:
    """The rows of a list, found by their samples."""

    def __init__(self, rows: Sequence[_ContrastRow]) -> None:
        self.rows = rows
        self._places: dict[tuple[str, ...], dict[str, list[int]]] = {}  # columns of `where` -> their values -> places
        for place, each in enumerate(rows):
            names = tuple(sorted(each.where))
            key = canonical_json([each.position, *(each.where[name] for name in names)])
            self._places.setdefault(names, {}).setdefault(key, []).append(place)

    def places_of(self, position: int, row: Mapping[str, JsonValue]) -> list[int]:
        """Return the places in the list of the variants of the sample at a position of the evaluated split."""
        places: list[int] = []
        for names, by_value in self._places.items():
            if all(name in row for name in names):
                values = [row[name] for name in names]
                places += by_value.get(canonical_json([None if names else position, *values]), [])
        return sorted(places)


@lru_cache(maxsize=4)
def _contrast_list(text: str, where: str) -> _ContrastList:
    """Return the rows of a list. Raises: DataError naming the line, and what was expected."""
    made = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        place = f"{where}, line {number}"
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place} is not JSON: {error}; expected {_CONTRAST_FORM}") from error
        if not isinstance(content, dict) or {*content} not in ({"id", "row"}, {"where", "row"}):
            raise DataError(f"{place} is {line[:80]!r}; expected {_CONTRAST_FORM}")
        position, named, row = content.get("id"), content.get("where", {}), content["row"]
        if not isinstance(row, dict) or not row:
            raise DataError(f"{place}: row is {row!r:.80}; expected the columns that change, with their values")
        if "id" in content and (not isinstance(position, int) or isinstance(position, bool) or position < 0):
            raise DataError(f"{place}: id is {position!r:.80}; expected the position of a sample, from 0")
        if "where" in content and (not isinstance(named, dict) or not named):
            raise DataError(f"{place}: where is {named!r:.80}; expected columns with their values in the sample")
        made.append(_ContrastRow(position, named, row))
    if not made:
        raise DataError(f"{where} has no rows; expected {_CONTRAST_FORM}")
    return _ContrastList(made)


@dataclass(frozen=True, slots=True)
class _PerturbationRule:
    """The rule behind a name: its family, HELM's strength, and how it changes a question's texts.

    strength: a probability, or the most spaces; None: the rule has none.
    change: returns a function of one text, for the texts of one sample in turn.
    form: of the user's list; None: the rule needs no list.
    """

    family: Family
    strength: float | None
    change: Callable[["Perturbation", Random], Callable[[str], str]]
    form: str | None = None
    keeps_options: bool = True  # False: options and references change with the question
    takes_seed: bool = True
    is_of_rows: bool = False  # the list has whole rows, and no text is changed by a rule


@dataclass(frozen=True, slots=True)
class Perturbation:
    """One perturbation with its settings. Its result for a text depends on nothing else but the sample's id."""

    name: str
    strength: float | None = None  # a probability; of `space`, the most spaces
    entries: str | None = None  # the text of the user's list

    @property
    def family(self) -> Family:
        """Whether copies count into the worst case of robustness or of fairness."""
        return _KINDS[self.name].family

    @property
    def keeps_options(self) -> bool:
        """Whether options and references stay as they are."""
        return _KINDS[self.name].keeps_options

    @property
    def is_of_rows(self) -> bool:
        """Whether copies are rows of the user's list (`row_of`), not texts that a rule changes (`texts`)."""
        return _KINDS[self.name].is_of_rows

    @property
    def label(self) -> str:
        """The name in tasks' names, with the strength where it is not HELM's: `typos:0.05`."""
        usual = _KINDS[self.name].strength
        return self.name if self.strength == usual else f"{self.name}:{self.strength:g}"

    @property
    def content(self) -> PerturbationPlan:
        """The settings as a plan stores and hashes them; the list is stored too, to run again without its file."""
        content: PerturbationPlan = {"name": self.name, "strength": self.strength, "version": VERSION}
        if self.entries is not None:
            content["entries"] = self.entries
        return content

    def texts(
        self, sample_id: str, references: Sequence[str], parts: Sequence[str], seed: int | None = None
    ) -> tuple[list[str], list[str]]:
        """Return references and parts of a question, perturbed in this order by one generator.

        Args:
            sample_id: HELM's id of an instance, `id7`, which seeds the generator.
            references: options or reference answers; returned unchanged where they are kept.
            parts: the question's texts.
            seed: None for the first copy of a sample, as in HELM, else 1, 2, ...
        """
        kind = _KINDS[self.name]
        seeded = sample_id if seed is None or not kind.takes_seed else f"{seed}{sample_id}"
        change = kind.change(self, Random(seeded))  # noqa: S311 - the rule of HELM, no secret
        changed = list(references) if kind.keeps_options else [change(text) for text in references]
        return changed, [change(text) for text in parts]

    def row_of(
        self, sample_id: str, position: int, row: Mapping[str, JsonValue], seed: int | None = None
    ) -> Mapping[str, JsonValue] | None:
        """Return the columns of a sample that change; None where the user's list has no row for it.

        Args:
            sample_id: HELM's id of an instance, `id7`, which seeds the draw among several rows.
            position: of the sample in the evaluated split.
            row: the sample's own.
            seed: as for `texts`.
        """
        places = self._list.places_of(position, row)
        random = Random(sample_id if seed is None else f"{seed}{sample_id}")  # noqa: S311 - the rule of HELM
        return self._list.rows[places[random.choice(range(len(places)))]].row if places else None

    def n_of_none(self, samples: Iterable[tuple[int, Mapping[str, JsonValue]]]) -> int:
        """Return how many rows of the list are of none of these samples (position and row)."""
        known = {place for position, row in samples for place in self._list.places_of(position, row)}
        return len(self._list.rows) - len(known)

    @property
    def _list(self) -> _ContrastList:
        return _contrast_list(self.entries or "", f"the list of {self.name}")


def _plain(rule: Callable[[str, Random], str]) -> Callable[[Perturbation, Random], Callable[[str], str]]:
    return lambda _own, random: lambda text: rule(text, random)


def _drawn(rule: Callable[[str, Random, float], str]) -> Callable[[Perturbation, Random], Callable[[str], str]]:
    return lambda own, random: lambda text: rule(text, random, own.strength or 0.0)


def _swapped(triples: Sequence[tuple[str, str, str]]) -> Callable[[Perturbation, Random], Callable[[str], str]]:
    pairs = [(male, female) for _, female, male in triples]
    return lambda own, random: lambda text: rules.swap_words(text, random, pairs, own.strength or 0.0)


def _with_list(
    rule: Callable[[str, Random, Replacements, float], str],
) -> Callable[[Perturbation, Random], Callable[[str], str]]:
    def change(own: Perturbation, random: Random) -> Callable[[str], str]:
        replacements = _replacements(own.entries or "", f"the list of {own.name}")
        return lambda text: rule(text, random, replacements, own.strength or 0.0)

    return change


def _renamed(own: Perturbation, random: Random) -> Callable[[str], str]:
    return NameSwap(*_names(own.entries or "", "the list of person_name"), own.strength or 0.0, random)


_WORDS = 'JSON such as {"going to": ["gonna"]}'
_KINDS: Mapping[str, _PerturbationRule] = {
    "mild_mix": _PerturbationRule("robustness", None, _plain(rules.mild_mix)),
    "contraction": _PerturbationRule("robustness", None, _plain(rules.contract)),
    "contrast_sets": _PerturbationRule(
        "robustness", None, _plain(lambda text, _: text), _CONTRAST_FORM, keeps_options=False, is_of_rows=True
    ),
    "expansion": _PerturbationRule("robustness", None, _plain(rules.expand)),
    "filler_words": _PerturbationRule("robustness", 0.1, _drawn(rules.fill)),
    "lowercase": _PerturbationRule("robustness", None, _plain(rules.lowercase)),
    "misspellings": _PerturbationRule("robustness", 0.1, _drawn(rules.misspell)),
    "space": _PerturbationRule(
        "robustness", 3, lambda own, random: lambda text: rules.respace(text, random, int(own.strength or 1))
    ),
    "synonym": _PerturbationRule("robustness", 0.1, _with_list(rules.replace_words), _WORDS),
    "typos": _PerturbationRule("robustness", 0.01, _drawn(rules.typos)),
    "dialect": _PerturbationRule("fairness", 1.0, _with_list(rules.replace_between_marks), _WORDS, keeps_options=False),
    "gender": _PerturbationRule("fairness", 1.0, _swapped(GENDER_PRONOUNS), keeps_options=False),
    "gender_terms": _PerturbationRule("fairness", 1.0, _swapped(GENDER_TERMS), keeps_options=False),
    "person_name": _PerturbationRule(
        "fairness",
        1.0,
        _renamed,
        "rows NAME,first_name,race,white_american,gender,female",
        keeps_options=False,
        takes_seed=False,
    ),
}
GROUPS: Mapping[str, tuple[str, ...]] = {
    "robustness": ("mild_mix",),
    "fairness": ("dialect", "gender", "person_name"),
    "canonical": ("mild_mix", "dialect", "gender", "person_name"),
    "robustness_all": (
        "contraction", "expansion", "filler_words", "lowercase", "misspellings", "space", "synonym", "typos",
    ),
}  # fmt: skip
"""HELM's sets of perturbations (run_expander.py)."""
FAMILIES: tuple[Family, ...] = ("robustness", "fairness")


def perturbations_of(named: str | Sequence[str | Perturbation]) -> tuple[Perturbation, ...]:
    """Return the perturbations that are named, groups replaced by their members, each once.

    Args:
        named: names and groups, separated by commas or in a list; `NAME:STRENGTH`, and `NAME=FILE` for the user's list
            of synonym, dialect, person_name or contrast_sets, which may stand beside a group that has it.

    Raises: UnknownName; UsageError for an invalid strength, or a list that is missing or not needed; DataError
        for a file that is no such list.
    """
    items = [each.strip() for each in named.split(",")] if isinstance(named, str) else list(named)
    chosen: dict[str, Perturbation] = {}
    of_groups: dict[str, str] = {}  # label -> group
    for item in items:
        if isinstance(item, Perturbation):
            chosen[item.label] = item
        elif item in GROUPS:
            for name in GROUPS[item]:
                member = Perturbation(name, _KINDS[name].strength)
                chosen.setdefault(member.label, member)
                of_groups.setdefault(member.label, item)
        else:
            made = _perturbation_of(item)
            chosen[made.label] = made
    if not chosen:
        raise UsageError("perturb names nothing; expected names such as robustness or mild_mix,typos")
    lacking = [each for each in chosen.values() if _KINDS[each.name].form is not None and each.entries is None]
    if lacking:
        wanted = ",".join(f"{each.name}=FILE" for each in lacking)
        which = ", ".join(dict.fromkeys(of_groups.get(each.label, each.name) for each in lacking))
        forms = "; ".join(f"{each.name}: {_KINDS[each.name].form}" for each in lacking)
        raise UsageError(
            f"perturb {which} needs a list of yours, since HELM's may not be shipped: add {wanted} ({forms})"
        )
    return tuple(chosen.values())


def _perturbation_of(item: str) -> Perturbation:
    """Return the perturbation of NAME[:STRENGTH][=FILE]."""
    head, has_file, file = item.partition("=")
    name, has_strength, strength = head.strip().partition(":")
    kind = _KINDS.get(name)
    if kind is None:
        known = [*GROUPS, *_KINDS]
        raise UnknownName("perturbation", name, nearest(name, known), f"known: {', '.join(known)}")
    made = Perturbation(name, kind.strength)
    if has_strength:
        made = replace(made, strength=_strength(name, kind, strength))
    if not has_file:
        return made
    if kind.form is None:
        raise UsageError(f"perturb {item!r:.80}: {name} takes no list; omit ={file}")
    made = replace(made, entries=_list_of(Path(file.strip()).expanduser()))
    _check_list(made, str(file))
    return made


def _strength(name: str, kind: _PerturbationRule, text: str) -> float:
    is_count = name == "space"
    expected = "a whole number from 1 to 100" if is_count else "a probability above 0, at most 1"
    if kind.strength is None:
        raise UsageError(f"perturb {name}:{text} has a strength, and {name} has none; omit :{text}")
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (value in range(1, 101) if is_count else 0 < value <= 1):
        raise UsageError(f"perturb {name}:{text} is not valid; expected {expected}")
    return value


def _list_of(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_LIST:
            raise DataError(f"{path} has more than {LARGEST_LIST // 1024:,} KiB; expected a smaller list")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}; expected a list in UTF-8") from error


def _check_list(own: Perturbation, where: str) -> None:
    if own.name == "person_name":
        _names(own.entries or "", where)
    elif own.is_of_rows:
        _contrast_list(own.entries or "", where)
    else:
        _replacements(own.entries or "", where)


@lru_cache(maxsize=4)
def _names(text: str, where: str) -> tuple[Names, Sequence[str], Sequence[str]]:
    """Return the names of a list, and those to replace and to choose from. Raises: DataError."""
    names = names_by_category(text.splitlines(), where)
    return names, *names_of(names, "white_american", "black_american", where)


@lru_cache(maxsize=8)
def _replacements(text: str, where: str) -> Replacements:
    """Return the words of a list, in lower case, with their replacements.

    Raises: DataError where it is not a mapping of texts to lists of texts.
    """
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON: {error}; expected {_WORDS}") from error
    if not isinstance(listed, dict) or not listed:
        raise DataError(f"{where} is not a mapping of words; expected {_WORDS}")
    for word, others in listed.items():
        if (
            not word.strip()
            or not isinstance(others, list)
            or not others
            or not all(isinstance(o, str) for o in others)
        ):
            raise DataError(f"{where}: {word!r:.60} has {others!r:.60}; expected a list of texts, as in {_WORDS}")
    return {word.lower(): tuple(others) for word, others in listed.items()}


def perturbation_from(content: PerturbationPlan) -> Perturbation:
    """Return the perturbation whose content a plan stores."""
    return Perturbation(content["name"], content["strength"], content.get("entries"))


def family_of(label: str) -> Family:
    """Return the family of the perturbation with a label such as `typos:0.05`. Raises: UnknownName."""
    name = label.partition(":")[0]
    if name not in _KINDS:
        raise UnknownName("perturbation", name, nearest(name, _KINDS), f"known: {', '.join(_KINDS)}")
    return _KINDS[name].family
