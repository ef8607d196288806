"""Overlap of a benchmark's text with a corpus, by word n-grams; a count without inference.

A sample counts as found if any of its n-grams occurs anywhere in the corpus.
"""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from assaymark.audit.items import AuditItem
from assaymark.errors import DataError, UsageError
from assaymark.records.json_values import strings_in
from assaymark.tasks.training_examples import NGRAM_WORDS, ngrams, plain_words

_TEXT_ENDINGS = (".txt", ".md", ".text", ".html", ".csv", ".tsv", ".tex", ".py", ".yaml", ".yml")
_JSON_ENDINGS = (".jsonl", ".ndjson")


@dataclass(frozen=True, slots=True)
class Overlap:
    """The samples that overlap with the corpus."""

    n_words: int  # length of the n-grams
    n: int  # samples long enough to have an n-gram
    n_short: int  # samples with fewer words
    overlapping: tuple[int, ...]  # indices of samples with an n-gram that occurs
    mostly: tuple[int, ...]  # those with at least 80% of their n-grams
    n_corpus_words: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """A file or folder of text: .txt, .md, .jsonl (every string in it), .parquet, or any of them as .gz."""

    path: Path

    def files(self) -> list[Path]:
        """Return the files that hold text.

        Raises: UsageError if there are none.
        """
        if not self.path.exists():
            raise UsageError(f"--corpus '{self.path}' does not exist; expected a file or a folder of text")
        files = sorted(self.path.rglob("*")) if self.path.is_dir() else [self.path]
        known = [file for file in files if file.is_file() and _kind(file) is not None]
        if not known:
            raise UsageError(
                f"--corpus '{self.path}' holds no text; expected .txt, .md, .jsonl, .parquet or .gz of them"
            )
        return known

    def texts(self) -> Iterator[str]:
        """Yield the texts, one per file, line of JSON or cell.

        Raises: UsageError if there is nothing to read; DataError for a file that is not in the format of its ending.
        """
        for file in self.files():
            yield from _texts_of(file)


def overlap_with(items: Sequence[AuditItem], corpus: Corpus, n_words: int = NGRAM_WORDS) -> Overlap:
    """Return which samples have an n-gram in the corpus.

    Source: Brown et al. 2020 (GPT-3), appendix C: 13-grams; "mostly" after Touvron et al. 2023 (80% of a text).
    """
    wanted: dict[int, set[int]] = {}  # hash of an n-gram -> samples that have it
    sizes: dict[int, int] = {}
    for item in items:
        grams = set(ngrams(plain_words(item.text), n_words))
        if grams:
            sizes[item.index] = len(grams)
        for gram in grams:
            wanted.setdefault(gram, set()).add(item.index)
    hits: dict[int, int] = {}
    n_corpus = 0
    left = dict(wanted)
    for text in corpus.texts():
        words = plain_words(text)
        n_corpus += len(words)
        for gram in ngrams(words, n_words):
            for index in left.pop(gram, ()):
                hits[index] = hits.get(index, 0) + 1
    return Overlap(
        n_words=n_words,
        n=len(sizes),
        n_short=len(items) - len(sizes),
        overlapping=tuple(sorted(hits)),
        mostly=tuple(sorted(index for index, count in hits.items() if count >= 0.8 * sizes[index])),
        n_corpus_words=n_corpus,
    )


def _kind(file: Path) -> str | None:
    ending = Path(file.stem).suffix if file.suffix == ".gz" else file.suffix
    if ending in _JSON_ENDINGS or ending == ".json":
        return "lines" if ending in _JSON_ENDINGS else "json"
    if ending in _TEXT_ENDINGS:
        return "text"
    return "parquet" if ending == ".parquet" and file.suffix != ".gz" else None


def _texts_of(file: Path) -> Iterator[str]:
    kind = _kind(file)
    try:
        if kind == "parquet":
            yield from _parquet_texts(file)
            return
        with (
            gzip.open(file, "rt", encoding="utf-8", errors="replace")
            if file.suffix == ".gz"
            else file.open(encoding="utf-8", errors="replace") as lines
        ):
            if kind == "lines":
                for line in lines:
                    if line.strip():
                        yield from strings_in(json.loads(line))
            elif kind == "json":
                yield from strings_in(json.load(lines))
            else:
                yield lines.read()
    except (OSError, ValueError) as error:
        raise DataError(f"corpus file {file} cannot be read: {error}") from error


def _parquet_texts(file: Path) -> Iterator[str]:
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(file).iter_batches():
        for row in batch.to_pylist():
            yield from strings_in(row)
