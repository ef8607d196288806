"""What it costs to learn which of two models is better: `assaymark race` beside two full runs of lm-eval.

    python benchmarks/race_cost.py local [--n 14000] [--turns 3] [--batch_sizes 8,32,128]
    python benchmarks/race_cost.py priced [--n 14000]

- local: whole processes with an empty store, in turn on one machine. The task has questions of the demo's generator;
  the models are the large demo model, copies of it weakened by noise until each is about 3, 5 or 10 points worse on
  2,000 of the questions, and a copy with the same weights whose configuration has one more, unused, entry. Both
  programs compute in float32 (the weights are stored in float16, for which many processors have no products). lm-eval
  runs the whole task once per model, at the fastest of the batch sizes; its scores say which verdicts are right. A race
  is run once in each turn, and so is one of two questions, which is what start-up costs. With `--warm` each race is run
  a second time by the process of `assaymark warm start`; processor seconds are then the client's alone.
- priced: a chat server on this machine answers the same questions as two models that are 5 points apart and reports
  tokens; the bills of a race and of two full runs are what `assaymark` stores of them.

`--data` keeps task and models in a folder, where a second command finds models that are there.
"""

import argparse
import json
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file

from assaymark.records.json_values import float_at

if TYPE_CHECKING:
    from assaymark.runs.run import Run

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from demo.questions import Row, facts_row  # noqa: E402
from demo.world import build_world  # noqa: E402
from tests.http_servers import JsonHandler, LoopbackServer, serving  # noqa: E402

LARGE = ROOT / "src" / "assaymark" / "library" / "demo_models" / "large"
TASK, CHAT_TASK = "race_facts", "race_facts_chat"
GAPS = (5.0, 3.0, 10.0)  # points
SEARCHED = 2_000  # questions that the search for a noise asks
MARGIN = 3.0  # points, of the race between equal models
PRICE = "2.5,10"  # money per million tokens read and written
YAML = """task: {task}
dataset_path: json
dataset_kwargs:
  data_files:
    train: {folder}/train.jsonl
    test: {folder}/test.jsonl
training_split: train
test_split: test
fewshot_split: train
fewshot_config:
  sampler: first_n
{form}metadata:
  version: 1.0
"""
CHOICES = r"""output_type: multiple_choice
doc_to_text: "Question: {{question}}\nAnswer:"
doc_to_target: "{{choices.label.index(answerKey)}}"
doc_to_choice: "{{choices.text}}"
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
"""
CHAT = r"""output_type: generate_until
doc_to_text: "{{question}}\nA. {{choices.text[0]}}\nB. {{choices.text[1]}}\nC. {{choices.text[2]}}\nD. {{choices.text[3]}}\nAnswer with one letter."
doc_to_target: "{{answerKey}}"
generation_kwargs:
  until: ["\n"]
  do_sample: false
  max_gen_toks: 8
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Measured:
    """One process. Units: seconds; processor seconds of all its threads and children."""

    seconds: float
    processor_seconds: float
    printed: str


def questions(n: int, name: str) -> list[Row]:
    """Return n different questions about the valley, whose right choices stand at random places."""
    rng = random.Random(f"lomara: {TASK} {name}")
    facts = [fact for fact in build_world().facts if fact.form == "words"]
    rows: dict[str, Row] = {}
    while len(rows) < n:
        row = facts_row(rng, rng.choice(facts), rng.randrange(4))
        rows.setdefault(json.dumps(row), row)
    return list(rows.values())


def write_tasks(folder: Path, n: int) -> None:
    """Write the questions and the task files that both programs read."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in (("test", n), ("train", 20)):
        lines = [json.dumps(row) + "\n" for row in questions(size, name)]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    for task, form in ((TASK, CHOICES), (CHAT_TASK, CHAT)):
        (folder / f"{task}.yaml").write_text(YAML.format(task=task, folder=folder, form=form), encoding="utf-8")


def write_copy(folder: Path, noise: float, seed: int = 0, **more: Any) -> None:
    """Write the large demo model with Gaussian noise on its matrices, in units of their own standard deviation."""
    shutil.copytree(LARGE, folder, dirs_exist_ok=True)
    weights, generator = load_file(LARGE / "model.safetensors"), torch.Generator().manual_seed(seed)
    for name, tensor in sorted(weights.items()):
        if tensor.ndim == 2:
            drawn = torch.randn(tensor.shape, generator=generator)
            weights[name] = (tensor.float() + noise * tensor.float().std() * drawn).to(tensor.dtype)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, **more}), encoding="utf-8")


def accuracy(model: Path, tasks: Path, limit: int, num_fewshot: int) -> float:
    """Return the model's accuracy on the first questions, in points, by a run of ours that is not measured."""
    import assaymark

    with tempfile.TemporaryDirectory() as folder:
        run = assaymark.evaluate(
            str(model), TASK, model_args="dtype=float32", include_path=[str(tasks)], limit=limit,
            num_fewshot=num_fewshot, store=f"{folder}/s.sqlite",
        )  # fmt: skip
        return next(100 * (estimate.value or 0.0) for estimate in run.estimates if estimate.metric == "acc")


def weaken(folders: Mapping[float, Path], tasks: Path, limit: int, num_fewshot: int) -> None:
    """Write a copy for each gap that is so many points worse than the model itself, to 0.3 points.

    limit: how many questions the search asks; their order is random.

    Raises: RuntimeError if no noise gives a gap.
    """
    best, gaps_of_noise = accuracy(LARGE, tasks, limit, num_fewshot), {0.0: 0.0}
    for gap, folder in folders.items():
        low, high = 0.0, 1.0
        while True:
            noise = (low + high) / 2
            write_copy(folder, noise)
            if noise not in gaps_of_noise:
                gaps_of_noise[noise] = best - accuracy(folder, tasks, limit, num_fewshot)
                print(f"noise {noise:.5f}: {gaps_of_noise[noise]:.2f} points worse than {best:.2f}", flush=True)
            if abs(gaps_of_noise[noise] - gap) <= 0.3:
                break
            if high - low < 1e-4:
                raise RuntimeError(f"no noise makes the model {gap} points worse: tried {gaps_of_noise}")
            low, high = (noise, high) if gaps_of_noise[noise] < gap else (low, noise)


def measured(command: Sequence[str], environment: Mapping[str, str], allowed: tuple[int, ...] = (0,)) -> Measured:
    """Run a command to its end. Raises: RuntimeError with the end of its errors for another exit code."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode not in allowed:
        raise RuntimeError(f"{' '.join(command)} failed:\n{ended.stderr[-3000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(seconds, used, ended.stdout)


class Programs:
    """Both programs' commands on one task, each measured as a whole process."""

    def __init__(self, tasks: Path, scratch: Path, num_fewshot: int) -> None:
        self.tasks, self.scratch, self.num_fewshot = tasks, scratch, num_fewshot
        self.environment = {
            **os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_DATASETS_CACHE": f"{scratch}/datasets",
        }  # fmt: skip
        self._n = 0

    def lm_eval(self, model: Path, batch_size: int, limit: int | None = None) -> tuple[Measured, float]:
        """Run lm-eval's own command line with its defaults; return its cost and the accuracy in points."""
        folder = self._folder()
        command = [sys.executable, "-m", "lm_eval", "run", "--model", "hf", "--model_args",
                   f"pretrained={model},dtype=float32", "--tasks", TASK, "--include_path", str(self.tasks), "--device",
                   "cpu", "--batch_size", str(batch_size), "--num_fewshot", str(self.num_fewshot), "--output_path",
                   str(folder / "results.json"), *(["--limit", str(limit)] if limit else [])]  # fmt: skip
        cost = measured(command, self.environment)
        (written,) = folder.rglob("results*.json")
        return cost, 100 * json.loads(written.read_text(encoding="utf-8"))["results"][TASK]["acc,none"]

    def warm(self, what: str) -> Measured:
        """Start or stop the warm process."""
        return measured([sys.executable, "-m", "assaymark", "warm", what], self._ours())

    def _ours(self) -> dict[str, str]:
        return {**self.environment, "ASSAYMARK_HOME": str(self.scratch / "home"), "PYTHONPATH": str(ROOT / "src")}

    def race(self, first: Path, second: Path, *more: str) -> tuple[Measured, dict[str, Any]]:
        """Race two models, unknown to the store, the second also to the cache; return the cost and what was printed."""
        folder, filled = self._folder(), self.scratch / "cache"
        if filled.is_dir():
            shutil.copytree(filled, folder / "cache")
        models = [f"hf:pretrained={model},dtype=float32" for model in (first, second)]
        command = [sys.executable, "-m", "assaymark", "race", *models, "--tasks", TASK,
                   "--include_path", str(self.tasks), "--num_fewshot", str(self.num_fewshot),
                   "--store", str(folder / "store.sqlite"), "--json", *more]  # fmt: skip
        environment = {**self._ours(), "ASSAYMARK_CACHE": str(folder / "cache")}
        cost = measured(command, environment, (0, 1))
        if not filled.is_dir():
            shutil.copytree(folder / "cache", filled)
        return cost, json.loads(cost.printed)

    def _folder(self) -> Path:
        self._n += 1
        folder = self.scratch / str(self._n)
        folder.mkdir()
        return folder


def local(chosen: argparse.Namespace, data: Path, scratch: Path) -> None:
    """Measure lm-eval and the races in turn, and print a row for each pair."""
    tasks = data / "tasks"
    write_tasks(tasks, chosen.n)
    models, same = {gap: data / f"worse_{gap:g}" for gap in GAPS}, data / "same"
    write_copy(same, 0.0, saved_again=True)
    if not all(folder.is_dir() for folder in models.values()):
        weaken(models, tasks, min(SEARCHED, chosen.n), chosen.num_fewshot)
    programs = Programs(tasks, scratch, chosen.num_fewshot)
    programs.race(LARGE.parent / "small", LARGE, "--budget", "2")  # fills our cache, not with the copies' checks
    batch_size = fastest_batch(programs, [int(text) for text in chosen.batch_sizes.split(",")], chosen.n)
    pairs: list[Pair] = [
        Pair(f"{gap:g} points", folder, margin) for gap, folder in models.items() for margin in (None, gap)
    ]
    pairs.append(Pair("equal", same, MARGIN))
    pairs = [pair for pair in pairs if chosen.pair in {None, pair.name}]
    if chosen.warm:
        print(f"warm start: {programs.warm('start').seconds:.1f} s", flush=True)
    whole: dict[Path, tuple[Measured, float]] = {}
    waiting, starts = [] if chosen.races_only else [LARGE, *models.values(), same], []
    for turn in range(chosen.turns):
        for pair in pairs:
            if waiting:
                model = waiting.pop(0)
                whole[model] = programs.lm_eval(model, batch_size)
                print(f"lm-eval {model.name}: {whole[model][0].seconds:.1f} s "
                      f"({whole[model][0].processor_seconds:.1f}), {whole[model][1]:.2f}", flush=True)  # fmt: skip
            words = ["--margin", str(pair.margin)] if pair.margin else []
            cost, printed = programs.race(LARGE, pair.model, *words, "--no_warm")
            pair.costs.append(cost)
            pair.state = printed["state"]
            print(f"turn {turn}, {pair.name}, margin {pair.margin}: {cost.seconds:.1f} s "
                  f"({cost.processor_seconds:.1f}), {pair.state['verdict']} after {pair.state['n_seen']:,}",
                  flush=True)  # fmt: skip
            if chosen.warm:
                warm, again = programs.race(LARGE, pair.model, *words)
                print(f"turn {turn}, {pair.name}, margin {pair.margin}, warm: {warm.seconds:.1f} s, "
                      f"{again['state']['verdict']} after {again['state']['n_seen']:,}", flush=True)  # fmt: skip
                if again["state"] != printed["state"]:
                    raise RuntimeError(f"the warm process decided otherwise: {again['state']}; {printed['state']}")
        starts.append(programs.race(LARGE, same, "--budget", "2", "--no_warm")[0])
        if chosen.warm:
            taken = programs.race(LARGE, same, "--budget", "2")[0].seconds
            print(f"turn {turn}, start-up, warm: {taken:.1f} s", flush=True)
    if chosen.warm:
        programs.warm("stop")
    print(f"start-up (a race of 2 questions): {_medians(starts)[0]:.1f} s ({_medians(starts)[1]:.1f})")
    if chosen.races_only:
        return
    print(
        "| pair | gap by lm-eval | margin | questions | verdict | right | lm-eval twice, s (processor) | race | ratio |"
    )
    print("|---|--:|--:|--:|---|---|--:|--:|--:|")
    for pair in pairs:
        print(pair.row(whole[LARGE], whole[pair.model]), flush=True)


@dataclass(slots=True)
class Pair:
    """The large demo model and another, and their races. margin: points."""

    name: str
    model: Path
    margin: float | None
    costs: list[Measured] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)

    def row(self, first: tuple[Measured, float], second: tuple[Measured, float]) -> str:
        """Return the row of the table; first, second: lm-eval's full runs and scores."""
        gap, verdict = first[1] - second[1], self.state["verdict"]
        right = {"first": gap > 0, "second": gap < 0, "equivalent": abs(gap) < (self.margin or 0.0)}.get(verdict)
        seconds, processor = _medians(self.costs)
        twice = first[0].seconds + second[0].seconds
        twice_processor = first[0].processor_seconds + second[0].processor_seconds
        return (
            f"| {self.name} | {gap:.2f} | {self.margin or 'none'} | {self.state['n_seen']:,} | {verdict} | "
            f"{'undecided' if right is None else 'yes' if right else 'no'} | {twice:.1f} ({twice_processor:.1f}) | "
            f"{seconds:.1f} ({processor:.1f}) | {twice / seconds:.1f}x ({twice_processor / processor:.1f}x) |"
        )


def _medians(costs: Sequence[Measured]) -> tuple[float, float]:
    return statistics.median(c.seconds for c in costs), statistics.median(c.processor_seconds for c in costs)


def fastest_batch(programs: Programs, sizes: Sequence[int], n: int) -> int:
    """Return lm-eval's fastest batch size on a thousand questions."""
    if len(sizes) == 1:
        return sizes[0]
    seconds = {size: programs.lm_eval(LARGE, size, min(1_000, n))[0].seconds for size in sizes}
    print(
        "lm-eval by batch size: " + ", ".join(f"{size}: {taken:.1f} s" for size, taken in seconds.items()), flush=True
    )
    return min(seconds, key=seconds.__getitem__)


class ChatServer(LoopbackServer):
    """Answers the questions as models of known accuracies, each wrong on questions of its own, and reports tokens."""

    def __init__(self, rows: Sequence[Row], accuracies: Mapping[str, float]) -> None:
        super().__init__(_ChatHandler)
        self.replies: dict[tuple[str, str], str] = {}
        for model, share in accuracies.items():
            wrong = set(random.Random(model).sample(range(len(rows)), round((1 - share) * len(rows))))
            for number, row in enumerate(rows):
                key = row["answerKey"]
                texts = dict(zip("ABCD", row["choices"]["text"], strict=True))
                result = "\n".join([row["question"], *(f"{letter}. {text}" for letter, text in texts.items())])
                self.replies[model, result] = "BCDA"["ABCD".index(key)] if number in wrong else key
        self.lock = threading.Lock()
        self.bill = 0.0  # by the server's own count

    def price_of(self, n_read: int, n_written: int) -> float:
        """Return the money for tokens."""
        read, written = (float(text) for text in PRICE.split(","))
        return (n_read * read + n_written * written) / 1e6


class _ChatHandler(JsonHandler):
    server: ChatServer

    def do_POST(self) -> None:  # noqa: N802 - the standard library's name
        """Answer one question; a word or mark of the prompt is a token."""
        body = self.read_json()
        text = body["messages"][-1]["content"]
        result = text.removesuffix("\nAnswer with one letter.")
        n_read = len(re.findall(r"\w+|[^\w\s]", text))
        with self.server.lock:
            self.server.bill += self.server.price_of(n_read, 1)
        message = {"role": "assistant", "content": self.server.replies[body["model"], result]}
        usage = {"prompt_tokens": n_read, "completion_tokens": 1}
        self.send_json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})


def priced(chosen: argparse.Namespace, data: Path, scratch: Path) -> None:
    """Print the bills of races and of two full runs of the same two models, beside the server's own count."""
    from assaymark import evaluate
    from assaymark.runs.prepare import open_store
    from assaymark.runs.race import RaceOptions, race_models
    from assaymark.runs.run import Run

    write_tasks(data / "tasks", chosen.n)
    shares = {"better": 0.75, "worse": 0.70}
    with serving(ChatServer(questions(chosen.n, "test"), shares)) as server:
        arguments = {name: f"model={name},base_url={server.url}/chat/completions,num_concurrent=8" for name in shares}
        shared: dict[str, Any] = {"include_path": [str(data / "tasks")], "apply_chat_template": True, "price": PRICE}
        kind, whole = "local-chat-completions", open_store({"store": scratch / "runs.sqlite"})
        for margin in (None, 0.05):
            store, server.bill = open_store({"store": scratch / f"race_{margin}.sqlite"}), 0.0
            race = race_models(kind, kind, CHAT_TASK, RaceOptions(margin=margin), first_args=arguments["better"],
                               second_args=arguments["worse"], store=store, **shared)  # fmt: skip
            bill = sum(_spent(Run(store, run_id)) for run_id in race.run_ids)
            print(f"race, margin {margin}: {race.verdict} {bill:.6f} by the bills, {server.bill:.6f} by the server",
                  flush=True)  # fmt: skip
        server.bill, bill = 0.0, 0.0
        for name in shares:
            run = evaluate(kind, CHAT_TASK, model_args=arguments[name], store=whole, **shared)
            bill += _spent(run)
            print(f"{name}: {100 * (run.estimates[0].value or 0.0):.2f}", flush=True)
        print(f"two full runs: {bill:.6f} by the bills, {server.bill:.6f} by the server")


def _spent(run: "Run") -> float:
    cost = run.cost
    if cost is None:
        raise RuntimeError(f"run {run.id} has no bill")
    return float_at(cost, "spent")


def main() -> None:
    """Measure what is named and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("local", "priced"))
    parser.add_argument("--n", type=int, default=14_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--num_fewshot", type=int, default=0)
    parser.add_argument("--batch_sizes", default="8,32,128")
    parser.add_argument("--races_only", action="store_true", help="time races again, without lm-eval and a table")
    parser.add_argument("--warm", action="store_true", help="also let the process of `assaymark warm start` run each")
    parser.add_argument("--pair", help="only the races of one pair, such as '5 points'")
    parser.add_argument("--data", type=Path, help="folder of task and models")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = (chosen.data or Path(folder) / "data").resolve()
        {"local": local, "priced": priced}[chosen.what](chosen, data, Path(folder))


if __name__ == "__main__":
    main()
