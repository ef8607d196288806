"""Reports of stored runs as documents."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assaymark.errors import DataError, UsageError
from assaymark.limits.yaml_documents import load_yaml
from assaymark.runs.run import Run
from assaymark.runs.stored import existing_store, run_in

if TYPE_CHECKING:
    from assaymark.results.report.contents import ClaimedValue

MOST_CLAIM_BYTES = 1 << 20
MOST_CLAIMS = 200
CLAIM_KEYS = ("model", "source", "scores")


def read_claims(path: Path, notify: Callable[[str], None] = lambda _: None) -> "list[ClaimedValue]":
    """Read others' claims about models: a YAML list of `{model, source, scores: {task: per cent}}`, as boards have.

    `notify` receives a line about numbers that may be shares instead of per cent.

    The file is not trusted. Raises: UsageError where it is missing or too large; DataError naming the entry.
    """
    from assaymark.results.report.contents import ClaimedValue

    expected = "expected a list of {model: NAME, source: WHERE IT IS STATED, scores: {TASK: per cent}}"
    try:
        if path.stat().st_size > MOST_CLAIM_BYTES:
            raise UsageError(f"{path} has more than {MOST_CLAIM_BYTES:,} bytes; {expected}")
        content = load_yaml(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}; {expected}") from error
    entries = content.get("claims") if isinstance(content, Mapping) else content
    if not isinstance(entries, list):
        raise DataError(f"{path} is {type(entries).__name__}; {expected}")
    if not entries:
        raise DataError(f"{path} has no claims; {expected}")
    claims: list[ClaimedValue] = []
    for at, entry in enumerate(entries, start=1):
        named = entry if isinstance(entry, Mapping) else {}
        model, source, scores = (named.get(key) for key in ("model", "source", "scores"))
        if not all(text is not None and str(text).strip() for text in (model, source)):
            raise DataError(f"{path}: claim {at} lacks its model or source; {expected}")
        for key in ("model", "source"):
            if not isinstance(named[key], str):
                raise DataError(f"{path}: claim {at}: {key} is {named[key]!r:.60}; expected a text")
        if strange := [str(key) for key in named if key not in CLAIM_KEYS]:
            raise DataError(f"{path}: claim {at} has the key {strange[0]:.60}; expected {', '.join(CLAIM_KEYS)}")
        if not isinstance(scores, Mapping) or not scores:
            raise DataError(f"{path}: claim {at} has no scores; {expected}")
        for task, score in scores.items():
            if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 100:
                raise DataError(f"{path}: claim {at}: {task!s:.60} is {score!r:.40}; expected per cent, 0 to 100")
            claims.append(ClaimedValue(str(model)[:100], str(task), score / 100, str(source)[:300]))
    if claims and max(claim.value for claim in claims) <= 0.01:
        notify(f"{path}: every score is at most 1, and scores are per cent; if these are shares, write 99 for 0.99")
    if len(claims) > MOST_CLAIMS:
        raise DataError(f"{path} has {len(claims):,} values; at most {MOST_CLAIMS} can be shown")
    return claims


def report_stored(
    store: str | None, names: Sequence[str], path: str | Path | None = None, *, with_sealed: bool = False,
    claims: Path | None = None, notify: Callable[[str], None] = lambda _: None,
) -> Path:  # fmt: skip
    """Write a report of stored runs by their names; see `write_report`. The default path is `<first run>.html`.

    claims: a file of others' claims; see `read_claims`, also for `notify`.
    """
    opened = existing_store(store)
    runs = [run_in(opened, name) for name in names]
    claimed = read_claims(claims, notify) if claims is not None else ()
    target = path if path is not None else f"{runs[0].short_id}.html"
    return write_report(runs, target, with_sealed=with_sealed, claims=claimed)


def write_report(
    runs: Sequence[Run], path: str | Path, *, with_sealed: bool = False, claims: "Sequence[ClaimedValue]" = ()
) -> Path:
    """Write a report of runs in one store, as .html, .md or .pdf; later runs are compared with the first.

    Its examples have no rows of sealed tasks, unless `with_sealed`.

    Raises: UsageError for another suffix, for a run named twice or without results, and for a PDF if no browser is
        found; StoreError if it cannot be written.
    """
    from assaymark.results.report.contents import report_contents
    from assaymark.results.report.document import write_document

    for run in runs:
        run.refuse_without_results()
    store = runs[0].store if with_sealed else runs[0].as_others_see_it().store
    return write_document(path, report_contents(store, [run.id for run in runs], claims))
