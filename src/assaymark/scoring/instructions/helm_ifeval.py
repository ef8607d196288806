"""IFEval as HELM Capabilities scores it: of each prompt the share of its instructions that the answer follows.

Source: stanford-crfm/helm 63754d05, benchmark/metrics/ifeval_metrics.py (`ifeval_strict_accuracy`).
"""

from collections.abc import Mapping, Sequence

from assaymark.scoring.instructions.ifeval import score_ifeval


def share_followed(doc: Mapping[str, object], results: Sequence[str]) -> dict[str, float]:
    """Return the share of a row's instructions that the answer follows, strictly."""
    return {"strict_share": float(score_ifeval(doc, results[0])["inst_level_strict_acc"].value or 0.0)}
