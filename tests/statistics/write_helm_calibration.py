"""Write helm_calibration.json with HELM's library for calibration, in an environment of its own.

python -m venv cal && cal/bin/pip install uncertainty-calibration==0.1.4 scikit-learn numpy
cal/bin/python tests/statistics/write_helm_calibration.py > tests/statistics/helm_calibration.json
"""

import json
import sys

import calibration as cal
import numpy as np

KINDS = ("calibrated", "overconfident", "tied", "few", "one confidence", "certain", "all right")


def made(kind: str, seed: int) -> tuple[list[float], list[int]]:
    """Return confidences and whether each answer is right."""
    draw = np.random.default_rng([seed, KINDS.index(kind)])
    n = 7 if kind == "few" else 57 + 90 * seed
    p = draw.uniform(0.25, 1.0, n)
    if kind == "tied":
        p = np.round(p, 1)
    if kind == "one confidence":
        p = np.full(n, 0.625)
    if kind == "certain":
        p = np.where(draw.random(n) < 0.3, 1.0, p)
    chance = {"overconfident": 0.6 * p, "all right": np.ones(n)}.get(kind, 0.9 * p)
    right = (draw.random(n) < chance).astype(int)
    if kind != "all right":
        right[:4] = (1, 0, 0, 1)  # neither all right nor all wrong
        p[:4] = np.sort(p[:4])[[1, 2, 3, 0]]  # and not separated by the confidence
    return p.tolist(), right.tolist()


def main() -> None:
    """Write the cases, each as HELM's basic_metrics.py computes its metrics."""
    cases = []
    for kind in KINDS:
        for seed in (0, 1, 2):
            p, y = made(kind, seed)
            area, top = cal.get_selective_stats(p, y)
            row = {"kind": kind, "confidences": p, "right": y, "ece_10_bin": cal.get_ece_em(p, y, num_bins=10)}
            row |= {
                "ece_1_bin": cal.get_ece(p, y, num_bins=1),
                "selective_cov_acc_area": area,
                "selective_acc_at_10": top,
            }
            row |= {"platt_coef": None, "platt_intercept": None, "platt_ece_10_bin": 0.0, "platt_ece_1_bin": 0.0}
            if 0 < sum(y) < len(y):
                scaler, clf = cal.get_platt_scaler(np.array(p), np.array(y), get_clf=True)
                q = scaler(np.array(p))
                row |= {"platt_coef": clf.coef_[0][0], "platt_intercept": clf.intercept_[0]}
                row |= {
                    "platt_ece_10_bin": cal.get_ece_em(q, y, num_bins=10),
                    "platt_ece_1_bin": cal.get_ece(q, y, num_bins=1),
                }
            cases.append({key: float(value) if isinstance(value, np.floating) else value for key, value in row.items()})
    json.dump({"origin": "uncertainty-calibration 0.1.4 (MIT)", "cases": cases}, sys.stdout)


if __name__ == "__main__":
    main()
