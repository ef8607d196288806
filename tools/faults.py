"""Do the tests find one-line faults? Each is put into the source of a revision, and the tests that guard it are run.

    python tools/faults.py [--tests REV ...] [NUMBER ...]

Faults are put, one at a time, into a copy of each revision's own source beside its own tests (default: the working
tree); NUMBERs choose some of them. The named tests must pass without a fault, and fail with it. What the tests cost was
lowered between cd240cb9 and later revisions; the faults are in the code that those tests guard:

    python tools/faults.py --tests cd240cb9 HEAD

A revision that records what other tools answer gets none of these tools, so that only the record can find a fault.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import time
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "src/assaymark"


class Fault(NamedTuple):
    """One changed line: its file below `SOURCE`, text that occurs there once, what replaces it, and pytest's words."""

    name: str
    file: str
    old: str
    new: str
    tests: str


SIMULATED = "tests/runs/test_until.py -k 'intervals_miss and 0.3-None'"
SIMULATED_NEAR_1 = "tests/runs/test_until.py -k 'intervals_miss and 0.97-None'"
MASKS = "tests/engine/test_flex.py -k 'block_masks and {} and 32'"
COMPILED = "tests/engine/test_flex.py -k 'compiled and not llama'"
FLIPPED = "tests/store/test_verify.py -k 'flipped_byte and ({})'"
AUTOEVALS = "tests/applications/test_beside_autoevals.py"
RAGAS = "tests/applications/test_beside_ragas_and_deepeval.py -k ragas"
DEEPEVAL = "tests/applications/test_beside_ragas_and_deepeval.py -k 'of_deepeval'"
EXPERIMENTS = "tests/applications/test_beside_other_tools.py"
CONFSEQ = "tests/statistics/test_beside_confseq.py"
TRL = "tests/runs/test_training_file.py -k trl"
SAME_NUMBERS = "tests/parity/test_same_numbers.py -k craftgpt"
INSPECT = "tests/tasks/test_beside_inspect.py -k '{}'"
BENCHMARK = "tests/tasks/test_eval_yaml.py -k '{}'"
WRITTEN = "tests/parity/test_written_answers.py -k demo"
DISHONEST = "tests/leaderboard/submission/worker/test_dishonest_results.py"
SEALED = "tests/leaderboard/test_sealed.py"
PAGE = "tests/docs/test_pages.py -k 'commands_of_a_page and {}'"

FAULTS = (
    # simulated orders
    Fault("a tenth of the capital refutes a mean", "statistics/sequential.py", "return math.log(2.0 / self.alpha)",
          "return math.log(0.2 / self.alpha)", SIMULATED),
    Fault("what was seen is expected again", "statistics/sequential.py",
          "(self.means[None, tested] - self.weighted[:, None]) / self", "self.means[None, tested] / self", SIMULATED),
    Fault("every bet is won", "statistics/sequential.py", "(sign * surprise)", "abs(surprise)", SIMULATED),
    Fault("high means are impossible", "statistics/sequential.py", "expected > 1.0 + ROUNDING",
          "expected > 1.0 - 0.1", SIMULATED_NEAR_1),
    # block masks and the compiled kernel
    Fault("a token does not see itself", "engine/forward.py", "(key_nodes[k] <= node)", "(key_nodes[k] < node)",
          MASKS.format("llama and not llama4")),
    Fault("windows slide by node in place of depth", "engine/forward.py",
          "ends[part], depths[part] = window.ends, window.depths",
          "ends[part], depths[part] = window.ends, nodes[part]", MASKS.format("mistral")),
    Fault("sinks have the other sign", "engine/forward.py", "torch.sigmoid(rest - sinks", "torch.sigmoid(sinks - rest",
          MASKS.format("gpt_oss")),
    Fault("keys of the path are stored as its values", "engine/attention.py",
          "self.cache.values[index][self._kept_depths] = values", "self.cache.values[index][self._kept_depths] = keys",
          MASKS.format("llama and not llama4")),
    Fault("a window of 256 has the size of 128", "engine/forward.py", "1 << (n - 1).bit_length())",
          "1 << (n - 1).bit_length() - 1)", "tests/engine/test_flex.py -k 'gemma2 and 256'"),
    Fault("the soft cap's factor is forgotten", "engine/forward.py", "return cap * torch.tanh(score / cap)",
          "return torch.tanh(score / cap)", COMPILED),
    # checksums
    Fault("rows of outputs are not verified", "store/verify.py", "(attempts, run_leases, run_tasks, outputs, ",
          "(attempts, run_leases, run_tasks, ", FLIPPED.format("outputs")),
    Fault("the digest of a text is not compared", "store/verify.py", "if derived and derived != row.sha256:",
          "if not derived and derived != row.sha256:", FLIPPED.format("texts")),
    Fault("a number counts without its sign", "store/schema.py", "float: lambda value: repr(value).encode()",
          "float: lambda value: repr(abs(value)).encode()", FLIPPED.format("estimates")),
    Fault("the first byte of bytes does not count", "store/schema.py", "bytes: lambda value: value,",
          "bytes: lambda value: value[1:],", FLIPPED.format("runs or requests")),
    # scorers beside autoevals, RAGAS and DeepEval
    Fault("a distance never shrinks", "applications/scorers/similarity.py", "- bool(shrinks & last)", "", AUTOEVALS),
    Fault("numbers of other signs are alike", "applications/scorers/similarity.py", "(abs(first) + abs(second))",
          "max(abs(first), abs(second), 1.0)", AUTOEVALS),
    Fault("precision at k counts one context less", "applications/scorers/judged.py", "sum(are_useful[:k]) / k",
          "sum(are_useful[: k - 1]) / k", RAGAS),
    Fault("further arguments cost something", "applications/scorers/tools.py", "in wanted.items()) / len(wanted)",
          "in wanted.items()) / max(len(wanted), len(has))", RAGAS),
    Fault("a call is matched twice", "applications/scorers/tools.py", "before[at] + self._weight",
          "row[at] + self._weight", DEEPEVAL),
    # experiments beside other tools
    Fault("a score that is None is 0", "applications/binding.py", "if returned is None:\n        return Result(name)",
          "if returned is None:\n        return Result(name, 0.0)", f"{EXPERIMENTS} -k braintrust"),
    Fault("LangSmith's run has the row's inputs as outputs", "applications/binding.py",
          "outputs=outputs if isinstance(outputs, dict)", "outputs=inputs if isinstance(outputs, dict)",
          f"{EXPERIMENTS} -k langsmith"),
    # sequences beside confseq
    Fault("a variance has no value of its own", "statistics/sequential.py",
          "variance = (1.0 + self._squares) / (self.n_seen + 1)",
          "variance = (1.0 + self._squares) / (self.n_seen + 2)", f"{CONFSEQ} -k capitals"),
    Fault("what is certain is left out", "statistics/sequential.py", "max(low, least, 0.0), min(high, most, 1.0)",
          "max(low, 0.0), min(high, 1.0)", f"{CONFSEQ} -k certain"),
    # training files beside TRL and torchtune
    Fault("the user answers", "tasks/training_examples.py", 'or [("user", asked.strip())]',
          'or [("assistant", asked.strip())]', TRL),
    Fault("chats have another name", "runs/training_file.py", 'yield {"messages": example', 'yield {"chat": example',
          TRL),
    # the same numbers as lm-eval
    Fault("a prompt is cut from the right", "models/text/spans.py", "context = context[n_over:]",
          "context = context[:-n_over]", SAME_NUMBERS),
    Fault("variances of samples are those of populations", "statistics/lm_eval_errors.py",
          "array.std(ddof=1) / math.sqrt", "array.std(ddof=0) / math.sqrt", SAME_NUMBERS),
    Fault("one shot less is drawn", "prompts/few_shot.py", "n_drawn = rules.n_shots + (1 if rules.exclude else 0)",
          "n_drawn = rules.n_shots - 1 + (1 if rules.exclude else 0)", WRITTEN),
    Fault("one token more may be written", "models/text/generation_prompts.py",
          "settings.max_tokens or self.default_max_tokens,", "(settings.max_tokens or self.default_max_tokens) + 1,",
          WRITTEN),
    # commands of pages
    Fault("a command prints another number", "runs/training_file.py", "{subject.n_wrong:,} wrong,",
          "{subject.n_examples:,} wrong,", PAGE.format("fine_tuning")),
    Fault("a command that succeeds ends with 1", "cli/main.py", "return result if isinstance(result, int) else 0",
          "return result if isinstance(result, int) else 1", PAGE.format("fine_tuning")),
    Fault("an error has no line", "cli/main.py", '_say(f"error: {error}")', 'text = f"error: {error}"',
          PAGE.format("studies")),
    Fault("the program itself ends with 1", "__main__.py", "sys.exit(main())", "sys.exit(main() or 1)",
          PAGE.format("racing")),
    # crafted stores, and calls with a limit
    Fault("a table with a check is read", "store/connection.py", "AS|CHECK|DEFAULT", "AS|DEFAULT",
          "tests/store/test_schema_guard.py -k 'refused_at_once and check'"),
    Fault("a known result is computed again", "scoring/simulated_calls.py", '"refused": history.known,',
          '"refused": {},', "tests/scoring/test_simulated_calls.py -k beyond_the_limits"),
    # benchmarks of the Hub
    Fault("letters of options have spaces between", "prompts/templates.py", 'return ",".join(letter_of',
          'return ", ".join(letter_of', INSPECT.format("solvers")),
    Fault("the last number counts where the first should", "scoring/inspect_scorers.py",
          'numbers[0] if location == "begin"', 'numbers[-1] if location == "begin"', INSPECT.format("scorers")),
    Fault("pass@k of one answer less", "scoring/inspect_scorers.py", "math.comb(n - n_right, k) /",
          "math.comb(n - n_right, k - 1) /", INSPECT.format("epochs")),
    Fault("a letter beyond the options is one", "scoring/filters.py", "len(named) == 1 and named[0] in known",
          "len(named) == 1", INSPECT.format("choice")),
    Fault("a critique is of the revision's messages", "tasks/self_critique.py", "messages = (*first.messages,",
          "messages = (*request.messages,", INSPECT.format("critiques")),
    Fault("the key of shuffled options is that of the row", "prompts/templates.py",
          "letter_of(_order(texts, key).index(positions[0]))", "letter_of(positions[0])", BENCHMARK.format("shuffled")),
    Fault("links out of a benchmark's folder are followed", "datasets/card_files.py",
          "if not each.resolve().is_relative_to(root)", "if each.resolve() == root", BENCHMARK.format("stay_in_the")),
    # simulations of fewer runs
    Fault("intervals of groups are of 0.7 errors of 1.96", "statistics/intervals.py",
          "z, observed = two_sided_z(confidence), float(", "z, observed = 0.7 * two_sided_z(confidence), float(",
          "tests/statistics/test_groups.py -k 'group_intervals and 0.6'"),
    Fault("composites are of 0.7 errors", "statistics/intervals.py", "z, observed = two_sided_z(confidence), float(",
          "z, observed = 0.7 * two_sided_z(confidence), float(",
          "tests/statistics/test_board_scores.py -k 'composites_cover or clipped_interval or geometric'"),
    Fault("an interval of the page is a little narrower", "statistics/intervals.py",
          "z, observed = two_sided_z(confidence), float(", "z, observed = 0.97 * two_sided_z(confidence), float(",
          "tests/docs/test_statistics_page.py -k 'large_and_a_small and 10'"),
    Fault("one refuted mean raises the alarm", "statistics/change_of_mean.py", "largest.min(axis=0)",
          "largest.max(axis=0)", "tests/statistics/test_change_of_mean.py -k 'true_cell or delays'"),
    Fault("a threshold for five times as many alarms", "statistics/e_detector.py", "return n_metrics * n / alpha",
          "return n_metrics * n / alpha / 5", "tests/statistics/test_change_of_mean.py -k 'delays and 75'"),
    Fault("a quantile's interval is one-sided", "statistics/e_detector.py", "tail = (1 - confidence) / 2",
          "tail = 1 - confidence", "tests/statistics/test_e_detector.py -k quantile_baseline"),
    Fault("errors of users are too small", "statistics/clustered_experiment.py", "math.sqrt(sum(parts)), means",
          "math.sqrt(sum(parts)) * 0.8, means", "tests/statistics/test_clustered_experiment.py -k without_a_diff"),
    Fault("equal ratings are tested with half the errors", "arena/ratings.py", "(high - low) / (2.0 * z)))",
          "(high - low) / (4.0 * z)))", "tests/arena/test_rating_changes.py -k simulated_arenas"),
    # other tests that were made smaller
    Fault("texts of any size are unpacked", "store/packing.py", "stream.decompress(body, LONGEST_TEXT + 1)",
          "stream.decompress(body)", "tests/store/test_untrusted_texts.py -k gigabytes"),
    Fault("soft text is dark on dark", "web/static/site.css", "--soft: light-dark(#5a625f, #a0a8a5)",
          "--soft: light-dark(#5a625f, #3a423f)", "tests/web/test_browser.py -k no_finding_of_axe"),
    Fault("a reported score is compared with the lower end alone", "leaderboard/submission/checks.py",
          "return low - 1e-9 <= reported.value <= high + 1e-9", "return low - 1e-9 <= reported.value",
          "tests/leaderboard/submission/worker/test_work.py -k verified_by"),
    Fault("a job gets no index of tasks", "leaderboard/submission/worker/work.py",
          'copy_package_indexes(folder / "home" / "assaymark" / "cache")', 'copy_package_indexes(folder / "cache")',
          f"{DISHONEST} -k task_files"),
    Fault("results of any tasks are taken", "leaderboard/submission/worker/results.py", "if row.plan.key == plan.key]",
          "if row.plan.model.name == plan.model.name]", f"{DISHONEST} -k 'not_the_jobs and (task or samples)'"),
    Fault("a score of five is taken", "leaderboard/submission/worker/results.py", "or not low <= value <= high:",
          "or not low <= value:", f"{DISHONEST} -k 'not_the_jobs and scores'"),
    Fault("lists show beginnings of sealed rows", "store/public_store.py", "snippet=note_of(facts),",
          "snippet=facts.snippet,", f"{SEALED} -k nowhere"),
    Fault("sealed records are not withheld", "store/public_store.py",
          "return self._public_records(run_id, task, records)", "return records", f"{SEALED} -k nowhere"),
    Fault("what a server compared stays when rows are sealed", "leaderboard/stored.py",
          "seals, {}, Comparisons(), {}", "seals, self._known, self._comparisons, self._questions",
          f"{SEALED} -k runs_already"),
    Fault("a private board's runs are open", "leaderboard/submission/worker/work.py",
          "if task.name in board.private or (", "if (",
          "tests/leaderboard/submission/worker/test_work.py -k private_boards"),
    Fault("workers heed no stop texts", "models/workers/process.py",
          "(prompts, stop=stops.check(self._tokenizer), on_step", "(prompts, on_step",
          "tests/models/workers/test_generation.py -k number_of_workers"),
    Fault("an installed package registers nothing", "registry.py",
          "_own_places(self.kind).get(name) or self.places().get(name)", "_own_places(self.kind).get(name)",
          "tests/plugins/test_plugin.py -k 'scored_by or baseline'"),
    Fault("the former store comes first", "settings.py", " and not path.exists():", ":",
          "tests/test_former_name.py -k comes_first"),
    Fault("a prefix has no length", "models/text/tokenizer.py", 'return 1.0 + len(part["prepend"])', "return 1.0",
          "tests/runs/commands/test_hostile_tokenizers.py -k 'lengthen'"),
    Fault("a panic's traceback is printed", "cli/main.py", 'os.environ["RUST_BACKTRACE"] = "0"',
          'os.environ["RUST_BACKTRACE"] = "1"',
          "tests/runs/commands/test_hostile_tokenizers.py -k 'panic and expression'"),
)  # fmt: skip


def put(fault: Fault, tree: Path) -> None:
    """Put a fault into the source. Raises: SystemExit where its text does not occur once."""
    file = tree / SOURCE / fault.file
    text = file.read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        raise SystemExit(f"{fault.name}: {fault.file} has {text.count(fault.old)} times {fault.old!r}; expected 1")
    write(file, text.replace(fault.old, fault.new))


def write(file: Path, text: str) -> None:
    """Change a source file; its compiled form goes, since one of the same second and size would count as up to date."""
    file.write_text(text, encoding="utf-8")
    Path(cache_from_source(str(file))).unlink(missing_ok=True)


def check_out(revision: str | None, folder: Path) -> Path:
    """Return a copy of a revision, beside the real data that its tests look for."""
    tree = folder / "tree"
    tree.mkdir()
    if revision is not None:
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
    else:
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        for name in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
            if (ROOT / name).is_file():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, tree / name)
    (folder / "shared").symlink_to(ROOT.parent / "shared")
    return tree


def find(tests: str, tree: Path) -> tuple[bool, str, float]:
    """Run tests; return whether one failed, what was printed, and the seconds."""
    tools = {file.name.partition("-")[0].upper() for file in (tree / "tests" / "records").glob("*.json")}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "ASSAYMARK_CI": "1", "ASSAYMARK_THREADS": "1",
                    "OMP_NUM_THREADS": "1", **{f"{tool}_PYTHON": "/none" for tool in tools}}  # fmt: skip
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *shlex.split(tests)]
    since = time.monotonic()
    done = subprocess.run(words, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    if done.returncode not in (0, 1) or (done.returncode == 0 and " passed" not in printed):
        raise SystemExit(f"{tests}: pytest ended with {done.returncode}\n{printed[-3000:]}")
    return done.returncode == 1, printed, time.monotonic() - since


def main() -> int:
    """Print the table; return 1 where a revision does not find a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", nargs="+", metavar="REV", default=[None], help="revisions; default: working tree")
    parser.add_argument("numbers", nargs="*", type=int, metavar="NUMBER", help="of faults; default: all")
    asked = parser.parse_args()
    revisions: list[str | None] = asked.tests
    chosen = {at: fault for at, fault in enumerate(FAULTS, 1) if not asked.numbers or at in asked.numbers}
    cells: dict[int, list[str]] = {at: [] for at in chosen}
    is_missed = False
    for revision in revisions:
        with TemporaryDirectory() as name:
            tree = check_out(revision, Path(name))
            for tests in dict.fromkeys(fault.tests for fault in chosen.values()):
                has_failed, printed, _ = find(tests, tree)
                if has_failed:
                    raise SystemExit(f"{revision or 'working tree'}: {tests} fails without a fault\n{printed[-3000:]}")
            for at, fault in chosen.items():
                sound = (tree / SOURCE / fault.file).read_text(encoding="utf-8")
                put(fault, tree)
                has_failed, _, seconds = find(fault.tests, tree)
                write(tree / SOURCE / fault.file, sound)
                is_missed |= not has_failed
                cells[at] += ["fails" if has_failed else "**passes**", f"{seconds:.0f}"]
                print(f"{revision or 'working tree'}: {at} {fault.name}: {cells[at][-2:]}", file=sys.stderr, flush=True)
    heads = [head for each in revisions for head in (f"{each or 'working tree'}", "s")]
    print(f"| | fault | file | {' | '.join(heads)} |\n|{'---|' * (3 + len(heads))}")
    for at, fault in chosen.items():
        print(f"| {at} | {fault.name} | `{fault.file}` | {' | '.join(cells[at])} |")
    return int(is_missed)


if __name__ == "__main__":
    sys.exit(main())
