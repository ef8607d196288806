"""The log as a file: one line for each vote, which anybody can verify and rate without the store.

Near-duplicate prompts form one group, so that many votes on copies of a prompt do not count as many prompts.

Two prompts are near-duplicates if their sets of three-word sequences have a Jaccard similarity of at least 0.8; shorter
ones only if all their words are the same. Case, punctuation and spaces do not count. Groups are connected components,
so two prompts of a group may differ more.
Source: Bayardo, Ma and Srikant 2007 (All-Pairs: which candidates need not be compared).
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from assaymark.arena.arena_log import ArenaLog, first_break
from assaymark.arena.arena_rows import LogHead, VoteRow
from assaymark.arena.languages import languages_of
from assaymark.arena.votes import published_row
from assaymark.drafts import open_whole, write_whole
from assaymark.errors import DataError, MissingExtra, write_errors
from assaymark.store import Store

IntArray = npt.NDArray[np.int64]

SIMILARITY = 0.8
RUN = 3  # words in a sequence
_WORD = re.compile(r"\w+")


def cluster_prompts(texts: Sequence[str]) -> list[int]:
    """Return for each text the index of the first text of its group."""
    sets = _sequences(texts)
    first: dict[bytes, int] = {}
    own = [first.setdefault(some.tobytes(), index) if some.size else index for index, some in enumerate(sets)]
    distinct = [index for index, leader in enumerate(own) if leader == index and sets[index].size > 1]
    group = _groups([sets[index] for index in distinct])
    leaders = {index: distinct[group[place]] for place, index in enumerate(distinct)}
    return [leaders.get(leader, leader) for leader in own]


def near_duplicates(votes: Iterable[VoteRow], texts: Mapping[str, str]) -> dict[str, str]:
    """Return the first prompt of its group by prompt id, for each prompt of the votes whose text is not erased.

    texts: by commitment.
    """
    prompt_texts: dict[str, str] = {}
    for vote in votes:
        if vote.prompt_commitment in texts:
            prompt_texts.setdefault(vote.prompt_id, texts[vote.prompt_commitment])
    names = list(prompt_texts)
    return {
        name: names[leader] for name, leader in zip(names, cluster_prompts(list(prompt_texts.values())), strict=True)
    }


def _sequences(texts: Sequence[str]) -> list[IntArray]:
    """Return each text's distinct sequences of words as sorted numbers; of a short text the whole as one."""
    numbers: dict[str, int] = {}  # of words, from 1: 0 is not a word, in a text shorter than a sequence
    words = []
    for text in texts:
        of_text = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
        padding = [0] * (RUN - len(of_text)) if of_text else []
        words.append(np.array([numbers.setdefault(word, len(numbers) + 1) for word in of_text] + padding, np.int64))
    # exact below 2 million distinct words; above, numbers wrap, and two sequences have the same by chance only
    base = len(numbers) + 1
    return [np.unique((some[:-2] * base + some[1:-1]) * base + some[2:]) if some.size else some for some in words]


def _groups(sets: Sequence[IntArray]) -> list[int]:
    """Return for each set the index of the first set of its group; sets in one group are not compared again.

    A pair of similarity s shares one of the first n - ceil(s n) + 1 elements of each, in any fixed order; with the
    rarest first few sets share one.
    """
    group = list(range(len(sets)))

    def first_of(index: int) -> int:
        while group[index] != index:
            group[index] = group[group[index]]
            index = group[index]
        return index

    sizes = np.array([some.size for some in sets], dtype=np.int64)
    least = np.ceil(SIMILARITY * sizes - 1e-9).astype(np.int64)  # elements of a similar set
    owners, numbers = _beginnings(sets, sizes - least + 1)
    different: set[tuple[int, int]] = set()
    for start, end in _shared(numbers):
        sharing = owners[start:end].tolist()  # the largest first
        for at, larger in enumerate(sharing):
            for other in sharing[at + 1 :]:
                if sizes[other] < least[larger]:
                    break
                low, high = sorted((first_of(larger), first_of(other)))
                if low == high or (larger, other) in different:
                    continue
                if _are_similar(sets[larger], sets[other]):
                    group[high] = low
                else:
                    different.add((larger, other))
    return [first_of(index) for index in range(len(sets))]


def _are_similar(first: IntArray, other: IntArray) -> bool:
    shared = np.intersect1d(first, other, assume_unique=True).size
    return bool(shared >= SIMILARITY * (first.size + other.size - shared))


def _beginnings(sets: Sequence[IntArray], lengths: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rarest elements of each set, as many as `lengths`: owners and elements, by element.

    The owners of one element are in the order of their sizes, the largest first. Shapes: [elements of all beginnings].
    """
    sizes = np.array([some.size for some in sets], dtype=np.int64)
    if not sizes.size:
        return sizes, sizes
    owners = np.repeat(np.arange(sizes.size), sizes)
    _, elements, counts = np.unique(np.concatenate(sets), return_inverse=True, return_counts=True)
    order = np.lexsort((elements, counts[elements], owners))
    owners, elements = owners[order], elements[order]
    places = np.arange(owners.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_first = places < lengths[owners]
    owners, elements = owners[is_first], elements[is_first]
    order = np.lexsort((owners, -sizes[owners], elements))
    return owners[order], elements[order]


def _shared(sorted_numbers: IntArray) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each stretch of two or more equal numbers."""
    edges = np.flatnonzero(np.diff(sorted_numbers, prepend=-1, append=-1))
    for start, end in pairwise(edges.tolist()):
        if end - start > 1:
            yield start, end


def head_file(path: Path) -> Path:
    """Return the path of an export's head: `votes.jsonl` has `votes.head.json` beside it."""
    return path.with_suffix(".head.json")


def export_votes(
    store: Store,
    path: Path,
    *,
    texts: bool = False,
    live_texts: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> LogHead:
    """Write all votes as JSON lines, and number and hash of the last one beside it; return the latter.

    Open battles are not in the log and not written. Each row has the language of its prompt if langdetect is installed;
    the chain of hashes does not cover it. Prompts that hold a row of a sealed task, and their answers, are left out.

    texts: also write prompts and answers. live_texts: also those of live battles, where voters wrote the prompts.
    tell: receives a line about texts that are left out.

    Raises: StoreError if it cannot be written; HashMismatch where a vote is not as it was cast.
    """
    head = ArenaLog(store).head()
    held = ArenaLog(store).answer_texts(private=live_texts) if texts or live_texts else None
    every = ArenaLog(store).answer_texts()
    votes = ArenaLog(store).sound_votes(head.sequence)
    groups = near_duplicates(votes, every)
    try:
        languages = languages_of(votes, every)
    except MissingExtra:
        languages = None
    sealed = store.seals.recogniser() if held is not None else None
    n_sealed = 0
    with write_errors(path, "name another file with -o"):
        with open_whole(path, "backslashreplace") as file:
            for vote in votes:
                is_sealed = sealed is not None and bool(sealed.sources(every.get(vote.prompt_commitment, "")))
                n_sealed += is_sealed
                row = published_row(vote, {} if is_sealed else held, groups, languages)
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        write_whole(head_file(path), json.dumps(asdict(head)) + "\n")
    if n_sealed:
        tell(f"{n_sealed:,} votes are without their texts: the prompts are rows of a sealed task")
    return head


def verify_export(path: Path, head: str | None = None) -> tuple[int, str | None]:
    """Return the number of votes of an exported file, and the fault of its chain, if any.

    path: written by `export_votes`. head: the published hash in hex; None: the one in the file beside it.

    Raises: DataError if a file cannot be read.
    """
    rows = list(_rows(path))
    if head is None:
        try:
            head = str(json.loads(head_file(path).read_text(encoding="utf-8"))["hash"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{head_file(path)} cannot be read: {error}; name the published hash with --head"
            ) from error
    try:
        records = ({**row, "hash": bytes.fromhex(str(row["hash"]))} for row in rows)
        return len(rows), first_break(records, bytes.fromhex(head))
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"{path} has a row without {error}; expected a file of `assaymark arena export`") from error


def _rows(path: Path) -> Iterator[dict[str, object]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise DataError(f"{path}, line {number}: {str(row)[:40]} is not an object; expected a vote")
                yield row
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {error}; expected a file of `assaymark arena export`") from error
