"""What makes a task's numbers mean something else than one thinks, found before it is run.

Golds in a skewed place, rows asked twice or with two answers, samples among their own shots, choices that are equal,
empty or of which the first token decides nothing. Each check yields findings in words.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from evalstone.models.model import Model
from evalstone.records import Request, Sample
from evalstone.statistics.distributions import chi_square_sf
from evalstone.tasks.bound import BoundTask
from evalstone.tasks.gold import choice_queries, gold_choices

__all__ = ["Checked", "Finding", "check_requests", "check_tokens"]

SKEW_P = 0.001  # golds this unlikely under an even spread are told
FEWEST_EXPECTED = 5.0  # samples per place that a chi-square needs
FEWEST_TARGETS = 20  # written answers of which half being equal is a skew
TOKENISED = 200  # samples whose choices are tokenised
LONGEST_LABEL = 3  # characters up to which a choice is a label: A, (b), yes
_BRACES = re.compile(r"\{\{-?\s*(\w+)[^{}]*\}\}")
_SHOWN_AS = {"doc_to_choice": "choices", "doc_to_text": "prompts", "doc_to_target": "targets"}
SPACES = " \u2581Ġ"  # what tokenizers write for a space


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing worth knowing before the run."""

    level: str  # error | warning | note
    text: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A task with its samples rendered."""

    bound: BoundTask
    requests: tuple[Request, ...]

    @property
    def name(self) -> str:
        """The task's name."""
        return self.bound.plan.name

    @property
    def samples(self) -> Sequence[Sample]:
        """The samples, in the requests' order."""
        return self.bound.samples()


def check_requests(task: Checked) -> Iterator[Finding]:
    """Yield what rows and prompts show; no tokenizer is needed."""
    yield from _repeated_rows(task)
    yield from _absent_golds(task)
    yield from _gold_places(task)
    yield from _same_targets(task)
    yield from _shots_of_the_test(task)
    yield from _choices(task)
    yield from _unrendered(task)
    yield from _leaks(task)
    yield from _ends(task)


def _warning(text: str) -> Finding:
    return Finding("warning", text)


def _repeated_rows(task: Checked) -> Iterator[Finding]:
    counts = Counter(sample.sha256 for sample in task.samples)
    repeated = sum(count - 1 for count in counts.values())
    if repeated:
        yield _warning(f"{task.name}: {repeated} row(s) are repeats of another; they count more than once")
    targets: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for request in task.requests:
        asked = (request.segments[-1] if request.segments else request.prompt, *(_texts(request)))
        targets[asked].add(request.target)
    disputed = sum(len(answers) > 1 for answers in targets.values())
    if disputed:
        yield _warning(f"{task.name}: {disputed} question(s) are asked more than once with different right answers")


def _absent_golds(task: Checked) -> Iterator[Finding]:
    absent = [sample.index for sample in task.samples if task.bound.gold_is_absent(sample)]
    if absent:
        yield _warning(
            f"{task.name}: {len(absent)} row(s) whose right answer is none of the choices, the first is sample "
            f"{absent[0]}; they count as wrong whatever the model answers"
        )


def _gold_places(task: Checked) -> Iterator[Finding]:
    """Tell when golds stand in one place more often than chance would put them there.

    A sample with k choices is expected to have its right one in each of k places equally often, so samples with
    different numbers of choices count together.
    """
    observed: Counter[int] = Counter()
    expected: defaultdict[int, float] = defaultdict(float)
    for request, sample in zip(task.requests, task.samples, strict=True):
        queries = choice_queries(request)
        gold = gold_choices(task.bound, request, sample) if queries else frozenset()
        if len(gold) == 1:
            observed.update(gold)
            for place in range(len(queries)):
                expected[place] += 1 / len(queries)
    places = [place for place, count in expected.items() if count >= FEWEST_EXPECTED]
    n = observed.total()
    if len(places) < 2 or n == 0:
        return
    statistic = sum((observed[place] - expected[place]) ** 2 / expected[place] for place in places)
    if chi_square_sf(statistic, len(places) - 1) >= SKEW_P:
        return
    place, count = observed.most_common(1)[0]
    shared = len({_texts(request) for request in task.requests}) == 1
    what = f"always answering '{_texts(task.requests[0])[place]}' scores that" if shared else (
        "a constant answer scores that where options are listed, and ties go to early places"
    )  # fmt: skip
    yield _warning(
        f"{task.name}: the answer key is skewed: the right choice is number {place + 1} in {count / n:.0%} of "
        f"samples, {expected[place] / n:.0%} were even; {what}"
    )


def _same_targets(task: Checked) -> Iterator[Finding]:
    """Report a written answer that is right in most samples."""
    if task.bound.task.output_type != "generate_until" or len(task.requests) < FEWEST_TARGETS:
        return
    target, count = Counter(request.target for request in task.requests).most_common(1)[0]
    if target.strip() and 2 * count >= len(task.requests):
        yield _warning(
            f"{task.name}: the answer key is skewed: {target!r:.60} is right in {count / len(task.requests):.0%} of "
            "samples; always answering it scores that"
        )


def _shots_of_the_test(task: Checked) -> Iterator[Finding]:
    """Report shots that are drawn from the split that is evaluated."""
    own, splits = task.bound.task.fewshot, task.bound.task.splits
    drawn_from = own.split or (splits.training or splits.validation or splits.test if own.samples is None else None)
    if drawn_from is None or drawn_from != splits.evaluated:
        return
    key = "fewshot_split" if own.split else "no fewshot_split is given, so it"
    is_drawn = task.bound.plan.num_fewshot > 0
    if is_drawn or own.split:
        yield Finding(
            "warning" if is_drawn else "note",
            f"{task.name}: {key} is the test split '{drawn_from}': {'shots are' if is_drawn else 'shots would be'} "
            "drawn from the rows that are evaluated, and show answers of the test; name another split",
        )


def _texts(request: Request) -> tuple[str, ...]:
    return tuple(query.continuation.strip() for query in choice_queries(request))


def _choices(task: Checked) -> Iterator[Finding]:
    asked = [(request, choice_queries(request)) for request in task.requests]
    equal = [r.id for r, queries in asked if len({(a.segments, a.continuation) for a in queries}) < len(queries)]
    empty = [r.id for r, queries in asked if any(not query.continuation.strip() for query in queries)]
    if equal:
        yield _warning(f"{len(equal)} sample(s) offer the same choice twice, first {equal[0]}: ties are certain there")
    if empty:
        yield Finding("error", f"{len(empty)} sample(s) have an empty choice, first {empty[0]}: it cannot be scored")


def _unrendered(task: Checked) -> Iterator[Finding]:
    """Tell where a column is still named in braces: a list is taken literally, and so are templates inside rows."""
    first: dict[str, tuple[str, str]] = {}
    for request, sample in zip(task.requests, task.samples, strict=True):
        last = request.segments[-1] if request.segments else request.prompt
        choices = _texts(request)
        target = () if choices else (request.target,)  # with choices it is one of them
        shown = {"doc_to_choice": choices, "doc_to_text": (last,), "doc_to_target": target}
        for key, texts in shown.items():
            named = next((m for text in texts for m in _BRACES.finditer(text) if m.group(1) in sample.row), None)
            if named is not None and task.bound.task.spec.get(key) is not None:
                first.setdefault(key, (request.id, named.group(0)))
    for key, (where, seen) in first.items():
        remedy = "; write one template that gives a list, such as '{{[A, B]}}'" if key == "doc_to_choice" else ""
        yield _warning(
            f"{task.bound.task.source}: {key}: {_SHOWN_AS[key]} contain unrendered {{{{, first {where}: '{seen}' is "
            f"put to the model as it stands{remedy}"
        )


def _leaks(task: Checked) -> Iterator[Finding]:
    leaked = sum(request.n_leaked_shots > 0 for request in task.requests)
    if leaked:
        yield _warning(
            f"{task.name}: {leaked} sample(s) are among their own shots, themselves or as a near-duplicate; "
            "--profile evalstone draws others for them"
        )
    asked_before = sum(
        not request.n_leaked_shots and _is_among(request.segments[-1].strip(), request.segments[:-1])
        for request in task.requests
        if request.n_shots and request.segments
    )
    if asked_before:
        yield _warning(
            f"{task.name}: {asked_before} sample(s) have their question among their shots in a row that differs "
            "elsewhere: the answer is shown; --profile evalstone draws others where the choices are the same too"
        )


def _is_among(question: str, shots: Sequence[str]) -> bool:
    return bool(question) and any(question in shot for shot in shots)


def _ends(task: Checked) -> Iterator[Finding]:
    """Tell when a prompt ends in white space that the choice's first token should begin with."""
    ends = [
        request.id
        for request in task.requests
        if (queries := choice_queries(request))
        and "".join(queries[0].segments or request.segments).endswith((" ", "\t"))
        and not queries[0].continuation[:1].isspace()
    ]
    if ends:
        yield _warning(
            f"{task.name}: {len(ends)} prompt(s) end in a space, first {ends[0]}: most tokenizers begin a word with "
            "its space, so choices are cut as they never are in text; leave the space to target_delimiter"
        )


# ------------------------------------------------------------------------------------------- tokens


@dataclass(slots=True)
class _Odd:
    """Samples in which something is odd, counted; the first is named."""

    n: int = 0
    first: str = ""

    def add(self, name: str) -> None:
        """Count one."""
        self.first = self.first or name
        self.n += 1


@dataclass(slots=True)
class _Oddities:
    """What is odd about choices as tokens."""

    melted: _Odd = field(default_factory=_Odd)
    same_start: _Odd = field(default_factory=_Odd)
    unknown: _Odd = field(default_factory=_Odd)
    uneven: _Odd = field(default_factory=_Odd)
    doubled: str | None = None  # the special token with which prompts begin twice

    def look(self, request: Request, pieces: Sequence[tuple[str, ...]]) -> None:
        """Note what is odd about one sample's choices."""
        if any("<unk>" in text for piece in pieces for text in piece):
            self.unknown.add(request.id)
        if len(pieces) < 2 or not all(pieces) or len(set(pieces)) < len(pieces):
            return
        if len({piece[0] for piece in pieces}) == 1 and pieces[0][0].strip(SPACES):
            self.same_start.add(request.id)
        if max(map(len, _texts(request))) <= LONGEST_LABEL and len({len(piece) for piece in pieces}) > 1:
            self.uneven.add(request.id)


def check_tokens(task: Checked, model: Model) -> Iterator[Finding]:
    """Yield what a model's tokenizer makes of the first samples' choices."""
    odd = _Oddities()
    looked_at = task.requests[:TOKENISED]
    for request in looked_at:
        pieces: list[tuple[str, ...]] = []
        for query in choice_queries(request):
            split = model.split_tokens("".join(query.segments or request.segments), query.continuation)
            if split is None:
                return
            texts, begin = split
            if begin >= len(texts):
                odd.melted.add(f"{request.id} choice {query.index}")
            if len(texts) > 1 and _is_special(texts[0]) and texts[0] == texts[1]:
                odd.doubled = texts[0]
            pieces.append(tuple(texts[begin:]))
        odd.look(request, pieces)
    yield from _token_findings(task.name, len(looked_at), odd)


def _is_special(text: str) -> bool:
    return text.startswith("<") and text.endswith(">")


def _token_findings(name: str, n: int, odd: _Oddities) -> Iterator[Finding]:
    looked = f"of the first {n:,} samples"
    if odd.doubled is not None:
        yield Finding("error", f"{name}: prompts begin with {odd.doubled!r} twice; one beginning token is enough")
    if odd.melted.n:
        yield Finding(
            "error",
            f"{name}: {odd.melted.n} choice(s) {looked} melt into the prompt's last token, first {odd.melted.first}",
        )
    if odd.same_start.n > n / 2:  # in a few samples options happen to begin alike
        yield _warning(
            f"{name}: in {odd.same_start.n} {looked} all choices begin with the same token, first "
            f"{odd.same_start.first}: that token decides nothing and is scored all the same"
        )
    if odd.unknown.n:
        yield _warning(
            f"{name}: {odd.unknown.n} {looked} have choices with unknown tokens, first {odd.unknown.first}: this "
            "tokenizer cannot write them"
        )
    if odd.uneven.n:
        yield _warning(
            f"{name}: in {odd.uneven.n} {looked} labels have different numbers of tokens, first {odd.uneven.first}: "
            "the longer ones are less likely for that alone"
        )
