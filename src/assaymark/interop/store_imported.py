"""Storing of an imported run, completely or not at all."""

from assaymark.interop.imported import ImportedRun
from assaymark.records import content_hash
from assaymark.store import Store


def store_imported(store: Store, found: ImportedRun, *, command: str | None = None) -> tuple[str, bool]:
    """Store an imported run. Returns its id and whether it is new; the same files are the same run.

    Raises: StoreError if it cannot be written; then nothing is stored.
    """
    opened = store.open_run(found.plan, facts={"imported": found.extra["imported"]}, command=command)
    if opened.is_complete:
        store.close_run(opened.run_id, opened.attempt_id, "finished")
        return opened.run_id, False
    try:
        store.add_requests(opened.run_id, found.requests, found.samples)
        store.add(opened.run_id, opened.attempt_id, found.outputs)
        store.add_scores(opened.run_id, found.scores, content_hash({"imported": dict(found.origin)}))
        store.save_estimates(opened.run_id, found.estimates, found.extra)
        store.close_run(opened.run_id, opened.attempt_id, "finished", {"notes": list(found.notes)})
    except BaseException:
        store.remove(opened.run_id)
        raise
    return opened.run_id, True
