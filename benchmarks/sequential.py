"""How many questions a race and a goal need: simulated orders, as in the tables of `docs/racing.md`, and stored scores.

    python benchmarks/sequential.py [table|false|means|stored|macro|own] [--orders 1000] [--scores FILE]

- table: for each size of a benchmark and each share of questions on which two models disagree, a true difference of 5
  points: the median share of questions until the verdict, for our rules (and the share by which 80% of the orders were
  decided) and for others' (`sequential_rules.py`), and how often a verdict between two equal models is wrong.
- false: only that last column, for 1,000 questions and both of our rules; meant for many orders.
- means: for an accuracy that is to be known to within some points, the share of questions, and intervals that missed.
- stored: the same questions for real scores, those of MMLU-Pro's published answers of 28 models (a Parquet file with
  columns model, question_id, pred, answer): pairs about 5 and 10 points apart, and pairs made equal by swapping the two
  models' scores on random questions, which keeps how often they disagree.
- macro: the mean of those questions' categories, each of which counts the same: every third model to ± 2 points, and
  pairs whose macro averages are about 5 points apart, in the orders of `--macro`; beside it how often intervals for the
  mean over all questions, in their own order, ever exclude the macro average.
- own: stored for runs of ours: 25 copies of the large demo model, weakened by noise, on
  14,000 questions of the demo's generator, which are evaluated first (minutes a model on two cores); `--data` keeps
  task, models and store, so that it may be interrupted, and `--models` and `--questions` make it smaller.
"""

import argparse
import itertools
import tempfile
import time
from pathlib import Path

import numpy as np

from assaymark.runs.race_sides import LEAST_BLOCK, block_size
from assaymark.runs.until import Goal, GoalState
from assaymark.statistics.sequential import BettingSequence, MeanState, PairedRace, SequentialMean
from assaymark.tasks.question_order import macro_weights, question_order
from benchmarks.sequential_rules import RULES, fixed_size

SHARED = Path(__file__).resolve().parents[2] / "shared"
SCORES = SHARED / "data" / "TIGER-Lab" / "MMLU-Pro" / "_model_predictions" / "test.parquet"
SIZES, DISCORDANCES, DIFFERENCE = (1_000, 14_042), (0.15, 0.25, 0.35), 0.05
OWN_MODELS, OWN_QUESTIONS = 25, 14_000
NOISE = (0.25, 0.7)  # of the best and the worst model, in standard deviations of each matrix
MOST_AT_ONCE = 20_000_000  # values of orders in memory


def shuffled(n: int, discordance: float, difference: float, n_orders: int, seed: int = 0) -> np.ndarray:
    """Return random orders of differences with these shares. Shape: [orders, n]."""
    better, worse = round(n * (discordance + difference) / 2), round(n * (discordance - difference) / 2)
    values = np.concatenate([np.ones(better), -np.ones(worse), np.zeros(n - better - worse)]).astype(np.int8)
    return np.random.default_rng(seed).permuted(np.tile(values, (n_orders, 1)), axis=1)


def decided(orders: np.ndarray, planned: float | None, alpha: float = 0.05, *, is_null: bool = False) -> np.ndarray:
    """Return after how many questions our rule decided each order, n where never. Shapes: [orders, n] -> [orders]."""
    n_orders, n = orders.shape
    bets = BettingSequence(n, alpha, planned=planned, means=np.array([0.0]), n_orders=n_orders)
    when, total = np.full(n_orders, n), np.zeros(n_orders)
    for t in range(n - 1):
        bets.add(orders[:, t : t + 1])
        total += orders[:, t]
        refuted = np.maximum(bets.most_up, bets.most_down)[:, 0] >= bets.log_needed
        if not is_null:
            refuted |= np.abs(total) > n - t - 1
        when[(when == n) & refuted] = t + 1
        if (when < n).all():
            break
    return when


def false_share(n: int, discordance: float, planned: float | None, n_orders: int) -> float:
    """Return how often a verdict on two equal models was given."""
    size, n_false = max(1, MOST_AT_ONCE // n), 0
    for seed, start in enumerate(range(0, n_orders, size)):
        orders = shuffled(n, discordance, 0.0, min(size, n_orders - start), seed)
        n_false += int((decided(orders, planned, is_null=True) < n).sum())
    return n_false / n_orders


def until_known(state: MeanState, half_width: float) -> int:
    """Return how many questions `--until` asks next."""
    n_more = GoalState(Goal("", half_width, None, ""), "", state).n_more
    size = block_size(state.n_seen)
    return size if n_more is None else max(LEAST_BLOCK, min(size, n_more))


def known(n: int, accuracy: float, half_width: float, n_orders: int) -> tuple[np.ndarray, int]:
    """Return after how many questions each order's interval was narrow enough, and how many intervals ever missed."""
    values = np.zeros(n)
    values[: round(n * accuracy)] = 1.0
    rng, when, n_missed = np.random.default_rng(0), np.full(n_orders, n), 0
    for i in range(n_orders):
        order, sequence, missed = rng.permutation(values), SequentialMean(n, half_width=half_width), False
        state = sequence.state()
        while not (state.n_seen and state.half_width <= half_width):
            state = sequence.add(order[state.n_seen : state.n_seen + until_known(state, half_width)])
            missed |= not state.low - 1e-9 <= values.mean() <= state.high + 1e-9
        when[i] = state.n_seen
        n_missed += missed
    return when, n_missed


def print_table(n_orders: int) -> None:
    """Print the shares of questions of all rules, and false verdicts."""
    for n, discordance in itertools.product(SIZES, DISCORDANCES):
        began, cells = time.perf_counter(), []
        orders = shuffled(n, discordance, DIFFERENCE, n_orders)
        for name, planned in (("planned", DIFFERENCE), ("portfolio", None)):
            share = 100 * decided(orders, planned) / n
            cells.append(f"{name} {np.median(share):.1f} ({np.quantile(share, 0.8):.1f})")
        for name, rule in RULES.items():
            parts = np.array_split(orders, max(1, orders.size // 2_000_000))
            share = 100 * np.concatenate([rule(part.astype(float), n, 0.05, DIFFERENCE) for part in parts]) / n
            unfinished = f", {np.mean(share == 100):.0%} undecided" if name.startswith("OBF") else ""
            cells.append(f"{name} {np.median(share):.1f}{unfinished}")
        equal = shuffled(n, discordance, 0.0, n_orders)
        parts = np.array_split(equal, max(1, equal.size // 2_000_000))
        peeked = np.concatenate([RULES["z at each t"](part.astype(float), n, 0.05, DIFFERENCE) for part in parts])
        false = f"false: planned {100 * (decided(equal, DIFFERENCE, is_null=True) < n).mean():.1f}%, "
        false += f"z at each t {100 * (peeked < n).mean():.1f}%"
        fixed = 100 * fixed_size(n, discordance, DIFFERENCE) / n
        seconds = time.perf_counter() - began
        print(f"N={n} discordance {discordance}: fixed n {fixed:.1f}, {', '.join(cells)}; {false} [{seconds:.0f} s]",
              flush=True)  # fmt: skip


def print_false(n_orders: int) -> None:
    """Print how often equal models are told apart, for 1,000 questions."""
    for discordance in DISCORDANCES:
        shares = [100 * false_share(1_000, discordance, planned, n_orders) for planned in (DIFFERENCE, None)]
        print(f"N=1000 discordance {discordance}, {n_orders} orders: false, planned {shares[0]:.2f}%, portfolio "
              f"{shares[1]:.2f}%", flush=True)  # fmt: skip


def print_means(n_orders: int) -> None:
    """Print the shares of questions until an accuracy is known."""
    for n, half_width in ((1_000, 0.03), (14_042, 0.02)):
        for accuracy in (0.3, 0.7, 0.9):
            when, n_missed = known(n, accuracy, half_width, n_orders)
            asked = f"{100 * np.median(when) / n:.1f} ({100 * np.quantile(when, 0.8) / n:.1f})"
            print(f"N={n} accuracy {accuracy} to ± {100 * half_width:g}: {asked}, missed {n_missed} of {n_orders}",
                  flush=True)  # fmt: skip


def stored_scores(path: Path) -> tuple[list[str], np.ndarray]:
    """Return models and their scores on the questions that all of them answered. Shape: [models, questions]."""
    models, scores, _ = stored_categories(path)
    return models, scores


def stored_categories(path: Path) -> tuple[list[str], np.ndarray, list[str]]:
    """Return models, their scores as `stored_scores`, and the category of each question."""
    import pyarrow.parquet

    answers = pyarrow.parquet.read_table(path).to_pydict()
    category_of = dict(zip(answers["question_id"], answers["category"], strict=True))
    by_model: dict[str, dict[int, bool]] = {}
    for model, question, predicted, answer in zip(
        answers["model"], answers["question_id"], answers["pred"], answers["answer"], strict=True
    ):
        by_model.setdefault(model, {})[question] = predicted == answer
    most = max(len(own) for own in by_model.values())
    models = sorted(model for model, own in by_model.items() if len(own) > 0.99 * most)
    questions = sorted(set.intersection(*(set(by_model[model]) for model in models)))
    scores = np.array([[by_model[model][question] for question in questions] for model in models], dtype=float)
    return models, scores, [category_of[question] for question in questions]


def own_scores(data: Path, n_models: int, n_questions: int) -> tuple[list[str], np.ndarray]:
    """Return models and scores of whole stored runs, which are made where they are missing. Shape: as above."""
    import assaymark
    from benchmarks.race_cost import TASK, write_copy, write_tasks

    if not (data / "test.jsonl").is_file():
        write_tasks(data, n_questions)
    models, scores = [], []
    for at in range(n_models):
        folder = data / f"copy{at:02}"
        if not (folder / "model.safetensors").is_file():
            write_copy(folder, float(np.interp(at, (0, n_models - 1), NOISE)), seed=at)
        run = assaymark.evaluate(str(folder), TASK, include_path=[str(data)], store=str(data / "store.sqlite"))
        models.append(folder.name)
        scores.append(
            [score.value or 0.0 for sample in run.samples(TASK) for score in sample.scores if score.metric == "acc"]
        )
        print(f"{folder.name}: {100 * np.mean(scores[-1]):.2f}%", flush=True)
    return models, np.array(scores, dtype=float)


def print_stored(models: list[str], scores: np.ndarray, n_orders: int) -> None:
    """Print the shares of questions for real pairs, false verdicts, and verdicts on pairs made equal."""
    n = scores.shape[1]
    gaps = {pair: abs(scores[pair[0]].mean() - scores[pair[1]].mean()) for pair in
            itertools.combinations(range(len(models)), 2)}  # fmt: skip
    print(f"{len(models)} models, {n} questions, {len(gaps)} pairs", flush=True)
    rng = np.random.default_rng(0)
    for points in (5, 10):
        pairs = [pair for pair, gap in gaps.items() if abs(100 * gap - points) <= 1]
        for planned in (DIFFERENCE, None):
            shares, n_wrong, n_equivalent = [], 0, 0
            for first, second in pairs:
                differences = scores[first] - scores[second]
                for _ in range(n_orders):
                    order, race = rng.permutation(differences), PairedRace(n, margin=planned)
                    state = race.state()
                    while not state.is_decided:  # looks as `assaymark race` does
                        state = race.add(order[state.n_seen : state.n_seen + block_size(state.n_seen, state.n_more)])
                    shares.append(100 * state.n_seen / n)
                    n_wrong += state.verdict == ("second" if differences.mean() > 0 else "first")
                    n_equivalent += state.verdict == "equivalent"
            rule = "planned for 5 points" if planned else "portfolio"
            print(f"{points} ± 1 points apart, {len(pairs)} pairs, {rule}: {np.median(shares):.1f}% "
                  f"({np.quantile(shares, 0.8):.1f}%) of the questions, {n_wrong} of {len(shares)} wrong, "
                  f"{n_equivalent} equivalent", flush=True)  # fmt: skip
    drawn = rng.choice(len(gaps), size=min(50, len(gaps)), replace=False)
    for planned in (DIFFERENCE, None):
        n_false = n_all = 0
        for at in drawn:
            first, second = list(gaps)[at]
            differs = np.flatnonzero(scores[first] != scores[second])
            equal = np.zeros(n, dtype=np.int8)
            equal[differs[: len(differs) // 2 * 2]] = np.tile([1, -1], len(differs) // 2)
            orders = rng.permuted(np.tile(equal, (20 * n_orders, 1)), axis=1)
            n_false += int((decided(orders, planned, is_null=True) < n).sum())
            n_all += len(orders)
        rule = "planned for 5 points" if planned else "portfolio"
        print(f"{len(drawn)} pairs made equal, {rule}: {100 * n_false / n_all:.2f}% of {n_all} decided", flush=True)


def print_macro(path: Path, n_orders: int) -> None:
    """Print shares of questions and misses for macro averages, and misses of intervals that ignore the weights."""
    models, scores, categories = stored_categories(path)
    n, indices = scores.shape[1], {name: [at for at, category in enumerate(categories) if category == name]
                                   for name in sorted(set(categories))}  # fmt: skip
    macro: np.ndarray = np.array([scores[:, own].mean(axis=1) for own in indices.values()]).mean(axis=0)
    sizes = sorted(map(len, indices.values()))
    print(f"{len(models)} models, {n} questions in {len(indices)} categories of {sizes[0]} to {sizes[-1]}; macro and "
          f"plain average differ by up to {100 * np.abs(macro - scores.mean(axis=1)).max():.1f} points",
          flush=True)  # fmt: skip

    def order_of(seed: int, *, is_macro: bool) -> tuple[list[int], np.ndarray | None]:
        order = question_order(indices, dict.fromkeys(indices, str(path)), seed, macro=is_macro)
        return [at for _, at in order], np.array(macro_weights(order)) if is_macro else None

    for is_macro in (True, False):
        shares, n_missed = [], 0
        for at, seed in itertools.product(range(0, len(models), 3), range(n_orders)):
            order, weights = order_of(seed, is_macro=is_macro)
            sequence, has_missed = SequentialMean(n, half_width=0.02, weights=weights), False
            state = sequence.state()
            while not (state.n_seen and state.half_width <= 0.02):
                size = until_known(state, 0.02)
                state = sequence.add(scores[at, order][state.n_seen : state.n_seen + size])
                has_missed |= not state.low - 1e-9 <= macro[at] <= state.high + 1e-9
            shares.append(100 * state.n_seen / n)
            n_missed += has_missed
        what = "in the order of --macro, weighted" if is_macro else "in their own order, not weighted"
        print(f"macro average to ± 2 points, {what}: {np.median(shares):.1f}% of the questions, {n_missed} of "
              f"{len(shares)} intervals missed it", flush=True)  # fmt: skip
    pairs = [pair for pair in itertools.combinations(range(len(models)), 2)
             if abs(100 * abs(macro[pair[0]] - macro[pair[1]]) - 5) <= 1]  # fmt: skip
    shares, n_wrong = [], 0
    for (first, second), seed in itertools.product(pairs, range(n_orders)):
        order, weights = order_of(seed, is_macro=True)
        race, differences = PairedRace(n, weights=weights), (scores[first] - scores[second])[order]
        result = race.state()
        while not result.is_decided:
            result = race.add(differences[result.n_seen : result.n_seen + block_size(result.n_seen, result.n_more)])
        shares.append(100 * result.n_seen / n)
        n_wrong += result.verdict == ("second" if macro[first] > macro[second] else "first")
    print(
        f"macro averages 5 ± 1 points apart, {len(pairs)} pairs: {np.median(shares):.1f}% "
        f"({np.quantile(shares, 0.8):.1f}%) of the questions, {n_wrong} of {len(shares)} wrong",
        flush=True,
    )


def main() -> None:
    """Print one part, or the first three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=("table", "false", "means", "stored", "macro", "own"))
    parser.add_argument("--orders", type=int, default=1_000)
    parser.add_argument("--scores", type=Path, default=SCORES)
    parser.add_argument("--data", type=Path, help="folder of task, models and runs of `own`")
    parser.add_argument("--models", type=int, default=OWN_MODELS, help="how many copies `own` makes, at least 2")
    parser.add_argument("--questions", type=int, default=OWN_QUESTIONS, help="of `own`")
    arguments = parser.parse_args()
    if arguments.part in {None, "table"}:
        print_table(arguments.orders)
    if arguments.part in {None, "false"}:
        print_false(arguments.orders)
    if arguments.part in {None, "means"}:
        print_means(max(1, arguments.orders // 20))
    if arguments.part == "stored":
        print_stored(*stored_scores(arguments.scores), arguments.orders)
    if arguments.part == "macro":
        print_macro(arguments.scores, arguments.orders)
    if arguments.part == "own":
        with tempfile.TemporaryDirectory() as folder:
            models, scores = own_scores(arguments.data or Path(folder), arguments.models, arguments.questions)
        print_stored(models, scores, arguments.orders)


if __name__ == "__main__":
    main()
