"""Fit votes with the package arena-rank: run by rating_speed.py with an interpreter that has it.

Usage: PYTHON benchmarks/arena_rank_fit.py VOTES.npz (writes VOTES.npz.ratings.npy)
"""

import sys
import time

import numpy as np
import pandas as pd  # type: ignore[import-untyped,unused-ignore]
from arena_rank.models.bradley_terry import BradleyTerry  # type: ignore[import-not-found,unused-ignore]
from arena_rank.utils.data_utils import PairDataset  # type: ignore[import-not-found,unused-ignore]


def main() -> None:
    """Fit, with the sandwich by vote, twice: the first time includes compiling."""
    votes = np.load(sys.argv[1])
    names = np.array([f"model {number:04}" for number in range(int(votes["first"].max()) + 1)])
    words = np.array(["model_b", "tie", "model_a"])[(2 * votes["outcome"]).astype(int)]
    frame = pd.DataFrame({"model_a": names[votes["first"]], "model_b": names[votes["second"]], "winner": words})
    began = time.perf_counter()
    data = PairDataset.from_pandas(frame)
    print(f"arena-rank, reading the table: {time.perf_counter() - began:.2f} s", flush=True)
    for what in ("compiling included", "compiled"):
        model = BradleyTerry(n_competitors=len(data.competitors))
        began = time.perf_counter()
        result = model.compute_ratings_and_cis(data, significance_level=0.05)
        print(f"arena-rank, fit and sandwich by vote, {what}: {time.perf_counter() - began:.2f} s", flush=True)
    ratings = dict(zip(result["competitors"], np.asarray(result["ratings"]).tolist(), strict=True))
    np.save(f"{sys.argv[1]}.ratings.npy", np.array([ratings[name] for name in names]))


if __name__ == "__main__":
    main()
