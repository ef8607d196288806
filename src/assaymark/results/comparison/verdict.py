"""The verdict of a comparison ("is B better than A?") in one sentence that claims no more than the tests show."""

import math
from dataclasses import replace

from assaymark.documents.numbers import counted, shown_difference, shown_p
from assaymark.errors import few
from assaymark.results.comparison.records import Difference, PairComparison
from assaymark.statistics.distributions import two_sided_z
from assaymark.statistics.power import detectable_z, mde_mcnemar


def sentence(pair: PairComparison) -> str:
    """Return the verdict on two runs: by the overall line if there is one, and by the number of tasks."""
    headline = pair.overall if pair.overall is not None else (pair.tasks[0] if len(pair.tasks) == 1 else None)
    if headline is None:
        if not pair.tasks:
            return f"Nothing to compare between {pair.labels[0]} and {pair.labels[1]}."
        return f"{pair.labels[0]} and {pair.labels[1]}: {_tally(pair)}."
    first, second = pair.labels
    winner, loser = (second, first) if headline.gain > 0 else (first, second)
    if headline.p < 0.05 and winner == first and not headline.is_neutral:
        headline = _from_the_other_side(headline)  # by how much the winner leads
    size = shown_gain(headline)
    interval = shown_interval_of(headline)
    p = f"p {shown_p_relation(headline.p)}"
    evidence = f"95% interval {interval}, {p}" if interval else p
    over = _over(pair, headline)
    if headline.p < 0.05 and headline.is_neutral:
        neutral = f"neither direction of {headline.metric} is better"
        return f"{first} and {second} differ{over}: {size} from {first} to {second} ({evidence}); {neutral}."
    if headline.p < 0.05:
        text = f"{winner} is better than {loser}{over}: {size} ({evidence})"
        return text + (f"; {_tally(pair)}." if len(pair.tasks) > 1 else ".")
    text = f"{first} and {second} are not significantly different{over}: {size} from {first} to {second} ({evidence})"
    if limit := _limit(pair, headline):
        text += f"; minimum detectable effect with these samples: {limit} (power 80%)"
    return text + "."


def _from_the_other_side(line: Difference) -> Difference:
    """Return a line as first minus second."""
    ends = (None, None) if line.low is None or line.high is None else (-line.high, -line.low)
    return replace(line, difference=-line.difference, low=ends[0], high=ends[1])


def _over(pair: PairComparison, headline: Difference) -> str:
    """Return the scope of the headline, with its units if these are not single tasks."""
    if headline.n_tasks == 1:
        return f" on {_only_task(pair, headline)}"
    is_part = bool(headline.left_out or headline.repeated)
    if len(headline.units) in {0, headline.n_tasks} and not is_part:
        return f" over {counted(headline.n_tasks, 'task')}"
    n_tasks = f"{headline.n_tasks} of {len(pair.tasks)} tasks" if is_part else f"{headline.n_tasks} tasks"
    if len(headline.units) == headline.n_tasks:
        return f" over {n_tasks}"
    return f" over {counted(len(headline.units), 'equal part') if len(headline.units) > 1 else '1 part'} ({n_tasks})"


def table_notes(pair: PairComparison) -> list[str]:
    """Return the notes on a table's lines: the average of the overall line, and the correction of p."""
    notes = []
    overall = pair.overall
    if overall is not None and len(pair.tasks) > 1:
        names = [f"{name} ({n} tasks)" if n > 1 else name for name, n in overall.units]
        notes.append(f"overall: the mean of {few(names, 8)}, each with weight 1/{len(names)}")
        neutral = {line.name for line in pair.tasks if line.is_neutral}
        for why, names in (
            ("not a proportion of correct answers", [name for name in overall.left_out if name not in neutral]),
            ("neither higher nor lower is better", [name for name in overall.left_out if name in neutral]),
        ):
            if names:
                notes.append(f"excluded from overall, {why}: {', '.join(names)}")
        notes += [
            f"overall: {name} asks what {other} asks and scores it differently; only {other} counts"
            for name, other in overall.repeated
        ]
    if len(pair.tasks) > 1:
        own = [f"the {len(pair.tasks)} tasks"]
        own += [f"separately over the {len(pair.groups)} groups"] if len(pair.groups) > 1 else []
        single = [*(["the group"] if len(pair.groups) == 1 else []), *(["overall"] if overall is not None else [])]
        tail = f"; not for {' and '.join(single)}, a single test{' each' if len(single) > 1 else ''}" if single else ""
        notes.append(f"p: corrected (Holm) over {', '.join(own)}{tail}")
        notes.append("intervals: unlike p, not corrected for several tasks; one may exclude 0 although p > .05")
    if len(pair.scorers) > 1:
        notes.append(f"p of the {len(pair.scorers)} other scorers: corrected (Holm) over them")
    return notes


def _only_task(pair: PairComparison, headline: Difference) -> str:
    return next((line.name for line in pair.tasks if line.p == headline.p or len(pair.tasks) == 1), headline.name)


def _tally(pair: PairComparison) -> str:
    """Return the number of tasks on which each run is significantly better, with p corrected over the tasks."""
    first, second = pair.labels
    n_second = sum(line.better == 1 for line in pair.tasks)
    n_first = sum(line.better == 0 for line in pair.tasks)
    n_open = len(pair.tasks) - n_first - n_second
    parts = [f"{label} ahead on {n}" for label, n in ((second, n_second), (first, n_first)) if n]
    parts += [f"{n_open} not significantly different"] if n_open else []
    return f"of {counted(len(pair.tasks), 'task')} tested individually (Holm): {', '.join(parts)}"


def shown_gain(line: Difference) -> str:
    """Return a difference with its unit: percentage points for shares, a factor for perplexities."""
    gain = shown_line_difference(line)
    return f"{gain} points" if line.scale == "proportion" else f"{line.metric} {gain}"


def shown_line_difference(line: Difference) -> str:
    """Return a line's difference as tables show it."""
    if line.scale == "log":
        return _factor(line.difference)
    return shown_difference(line.difference, proportion=line.scale == "proportion")


def shown_bound(line: Difference, gain: float) -> str:
    """Return a bound on the gain in the unit and direction of the line's difference: `at least +1.2 points`."""
    difference = gain if line.higher_is_better else -gain
    end = "at least" if line.higher_is_better else "at most"
    return f"{end} {shown_gain(replace(line, difference=difference)).removeprefix(line.metric + ' ')}"


def shown_interval_of(line: Difference) -> str:
    """Return a line's interval as tables show it, empty if it has none."""
    if line.low is None or line.high is None:
        return ""
    if line.scale == "log":
        return f"{_factor(line.low)} to {_factor(line.high)}"
    is_share = line.scale == "proportion"
    return f"{shown_difference(line.low, proportion=is_share)} to {shown_difference(line.high, proportion=is_share)}"


def shown_p_relation(p: float) -> str:
    """Return `= 0.03` or `< 0.001`."""
    p_text = shown_p(p)
    return f"< {p_text[1:]}" if p_text.startswith("<") else f"= {p_text}"


def _factor(log_ratio: float) -> str:
    return f"×{math.exp(log_ratio):.3g}"


def _limit(pair: PairComparison, line: Difference) -> str | None:
    """Return the minimum detectable effect of these samples at a power of 80%.

    It is 1.43 times half the interval that is shown, so that it agrees with it, and at least that of the exact test.
    """
    if line.scale != "proportion" or not line.stderr or line.low is None or line.high is None:
        return None
    effect = detectable_z() / two_sided_z(line.confidence) * (line.high - line.low) / 2
    unit = line.units[0][0] if len(line.units) == 1 else line.name
    if any(each.name == unit and "McNemar" in each.method for each in (*pair.tasks, *pair.groups)):
        exact = mde_mcnemar(line.n, (line.n_better + line.n_worse) / line.n)
        effect = math.inf if exact is None else max(effect, exact)
    return "none" if effect > 1 else f"{100 * effect:.1f} points"
