"""How many questions a race and a goal need: simulated orders, as in the tables of `docs/racing.md`.

    python benchmarks/sequential.py [ORDERS]

For each size of a benchmark and each share of questions on which two models disagree, a true difference of 5 points:
the median and the 80% quantile of the share of questions until the verdict, and how often a verdict between two equal
models is wrong. Then, for an accuracy that is to be known to within some points: the median and the 80% quantile of the
share of questions asked, in a twentieth of the orders, and in how many of them the interval ever missed.
"""

import sys
import time

import numpy as np

from assaymark.statistics.sequential import BettingSequence, SequentialMean

SIZES, DISCORDANCES, DIFFERENCE = (1_000, 14_042), (0.15, 0.25, 0.35), 0.05


def decided(n: int, discordance: float, difference: float, planned: float | None, n_orders: int) -> np.ndarray:
    """Return after how many questions each order was decided, n where never. Shape: [orders]."""
    better, worse = round(n * (discordance + difference) / 2), round(n * (discordance - difference) / 2)
    values = np.concatenate([np.ones(better), -np.ones(worse), np.zeros(n - better - worse)])
    rng = np.random.default_rng(0)
    orders = np.stack([rng.permutation(values) for _ in range(n_orders)])
    bets = BettingSequence(n, planned=planned, means=np.array([0.0]), n_orders=n_orders)
    when, total = np.full(n_orders, n), np.zeros(n_orders)
    for t in range(n - 1):
        bets.add(orders[:, t : t + 1])
        total += orders[:, t]
        refuted = np.maximum(bets.most_up, bets.most_down)[:, 0] >= bets.log_needed
        if difference:
            refuted |= np.abs(total) > n - t - 1
        when[(when == n) & refuted] = t + 1
        if (when < n).all():
            break
    return when


def known(n: int, accuracy: float, half_width: float, n_orders: int) -> tuple[np.ndarray, int]:
    """Return after how many questions each order's interval was narrow enough, and how many intervals ever missed."""
    values = np.zeros(n)
    values[: round(n * accuracy)] = 1.0
    rng, when, n_missed = np.random.default_rng(0), np.full(n_orders, n), 0
    for i in range(n_orders):
        order, sequence, missed = rng.permutation(values), SequentialMean(n, half_width=half_width), False
        n_seen = 0
        while n_seen < n:
            state = sequence.add(order[n_seen : n_seen + max(50, n_seen // 10)])
            n_seen = state.n_seen
            missed |= not state.low - 1e-9 <= values.mean() <= state.high + 1e-9
            if state.half_width <= half_width:
                when[i] = n_seen
                break
        n_missed += missed
    return when, n_missed


def main() -> None:
    """Print the table."""
    n_orders = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    print(f"{n_orders} orders each; per cent of the questions, median (80% decided by)")
    for n in SIZES:
        for discordance in DISCORDANCES:
            began, cells = time.perf_counter(), []
            for planned in (DIFFERENCE, None):
                share = 100 * decided(n, discordance, DIFFERENCE, planned, n_orders) / n
                cells.append(f"{np.median(share):.1f} ({np.quantile(share, 0.8):.1f})")
            false = 100 * (decided(n, discordance, 0.0, DIFFERENCE, n_orders) < n).mean()
            seconds = time.perf_counter() - began
            rules = f"planned {cells[0]}, portfolio {cells[1]}, false {false:.1f}%"
            print(f"N={n} discordance {discordance}: {rules} [{seconds:.0f} s]", flush=True)
    for n, half_width in ((1_000, 0.03), (14_042, 0.02)):
        for accuracy in (0.3, 0.7, 0.9):
            n_repeated = max(1, n_orders // 20)
            when, n_missed = known(n, accuracy, half_width, n_repeated)
            asked = f"{100 * np.median(when) / n:.1f} ({100 * np.quantile(when, 0.8) / n:.1f})"
            print(
                f"N={n} accuracy {accuracy} to ± {100 * half_width:g}: {asked}, missed {n_missed} of {n_repeated}",
                flush=True,
            )


if __name__ == "__main__":
    main()
