"""Written answers: our time beside lm-evaluation-harness's HF backend, the same requests and the same greedy answers.

The model has random weights of a realistic shape. Random weights do not know where to stop, so the head's row of the
ending token is drawn with a larger spread than the others: it wins now and then, and lengths scatter about those of
the reference answers (both are printed). All runs happen in one process on the same threads, ours and lm-eval's by
turns; with --peer also transformers' own continuous batching, which knows no stop strings. Seconds are of the clock;
with one thread they are the processor's, so that other programs fall on neither.

Peak memory is taken from two more processes, each with one side alone.

Usage: python benchmarks/generate_speed.py [--shape m25|m135] [--load gsm8k|bbh|repeats] [--samples N] [--turns N]
"""

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from assaymark.settings import thread_count
from benchmarks.bench import add_places, make_models
from benchmarks.offline import use_local_data

MAX_TOKENS = 256
PEER_BLOCKS = 192  # of 256 positions, for transformers' continuous batching: room for about 32 sequences
ENDING_SPREAD = 1.85  # of the ending token's row in the head, times that of the others


@dataclass(frozen=True, slots=True)
class Load:
    """One benchmark as it is asked, and the reference answers' lengths."""

    task: str
    num_fewshot: int
    repeats: int = 1


LOADS = {
    "gsm8k": Load("gsm8k", 5),
    "bbh": Load("bbh_cot_fewshot_date_understanding", 3),
    "repeats": Load("gsm8k", 5, repeats=64),
}


def build(load: Load, n_samples: int) -> tuple[list[str], list[str], list[str]]:
    """Return the prompts that lm-eval builds, their stops, and the reference answers."""
    from lm_eval.tasks import TaskManager

    [task] = TaskManager().load([load.task])["tasks"].values()
    if task.get_config("num_fewshot") != 0:
        task.set_config(key="num_fewshot", value=load.num_fewshot)
    task.set_fewshot_seed(seed=1234)
    limit = 1 if load.repeats > 1 else n_samples
    task.build_all_requests(limit=limit, rank=0, world_size=1, tokenizer_name="", fewshot_as_multiturn=False)
    prompts = [instance.args[0] for instance in task.instances]
    references = [str(task.doc_to_target(each.doc)) for each in task.instances]
    until = list(task.instances[0].args[1]["until"])
    return prompts, until, references


def ending_model(folder: str) -> tuple[Any, Any]:
    """Return the model with a head of its own in which the ending token wins now and then, and its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(model.lm_head.weight.shape, generator=generator) * 0.05
    weight[model.config.eos_token_id] *= ENDING_SPREAD
    model.lm_head.weight = torch.nn.Parameter(weight, requires_grad=False)
    model.config.tie_word_embeddings = False
    model.generation_config.pad_token_id = model.config.eos_token_id
    return model, tokenizer


def clock() -> float:
    """Return seconds; threads that wait for each other burn processor time, so that counts for one thread only."""
    import torch

    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def time_lm_eval(model: Any, prompts: Sequence[str], kwargs: dict[str, Any], batch: int) -> tuple[float, list[str]]:
    """Return lm-eval's seconds and answers."""
    from lm_eval.api.instance import Instance

    requests = [Instance("generate_until", {}, (text, dict(kwargs)), i) for i, text in enumerate(prompts)]
    model.batch_size_per_gpu = batch
    begin = clock()
    answers = model.generate_until(requests, disable_tqdm=True)
    return clock() - begin, list(answers)


def time_continuous(
    model: Any, tokenizer: Any, prompts: Sequence[str], until: Sequence[str]
) -> tuple[float, list[str]]:
    """Return the seconds and answers of transformers' continuous batching, each answer cut at its first stop."""
    from transformers import GenerationConfig
    from transformers.generation.configuration_utils import ContinuousBatchingConfig

    eos = model.config.eos_token_id
    config = GenerationConfig(max_new_tokens=MAX_TOKENS, do_sample=False, eos_token_id=eos, pad_token_id=eos)
    # By default it takes most of the machine's memory for its cache.
    batching = ContinuousBatchingConfig(num_blocks=PEER_BLOCKS, max_batch_tokens=1024, use_cuda_graph=False)
    begin = clock()
    tokens = [tokenizer(text)["input_ids"] for text in prompts]
    result = model.generate_batch(tokens, config, continuous_batching_config=batching, warmup=False)
    order = sorted(result, key=lambda name: int(name.rsplit("_", 1)[1]))
    texts = [tokenizer.decode(result[name].generated_tokens, skip_special_tokens=True) for name in order]
    seconds = clock() - begin
    for stop in until:
        texts = [text.split(stop)[0] for text in texts]
    return seconds, texts


def time_ours(model: Any, requests: Sequence[Any]) -> tuple[float, list[Any]]:
    """Return our seconds and outputs, by sample and repeat; print which share of the decoding steps was of use."""
    reports: list[Any] = []
    generate = model.engine.generate
    model.engine.generate = lambda prompts, **options: generate(prompts, **{**options, "on_step": reports.append})
    begin = clock()
    outputs = list(model.answer(requests))
    seconds = clock() - begin
    model.engine.generate = generate
    n_kept = reports[-1].n_generated - len(outputs)  # the first token of each comes from reading its prompt
    print(f"{n_kept} tokens kept of {reports[-1].n_slot_steps} computed in decoding steps")
    return seconds, sorted(outputs, key=lambda each: (int(each.request_id.split("/")[1]), each.repeat))


def peak_gb(only: str) -> float:
    """Return the peak memory of this command with one side alone, in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--only", only, "--turns", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.rsplit("peak ", 1)[1].split()[0])


def forget_peak() -> None:
    """Count peak memory from here on: loading and building prompts are alike on both sides, and need more."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")


def peak_since_bytes() -> int:
    """Return the peak memory since `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="m25")
    parser.add_argument("--load", choices=LOADS, default="gsm8k")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8, help="of lm-eval")
    parser.add_argument("--slots", type=int, help="of ours")
    parser.add_argument("--repeats", type=int, default=64, help="of the load `repeats`")
    parser.add_argument("--threads", type=int, default=thread_count())
    parser.add_argument("--only", choices=("ours", "lm-eval"))
    parser.add_argument("--peer", action="store_true", help="time transformers' continuous batching too")
    parser.add_argument("--no-memory", action="store_true", help="leave the two processes for peak memory out")
    add_places(parser)
    return parser.parse_args()


def our_model(given: argparse.Namespace) -> Any:
    """Return our model, warm."""
    from assaymark.models.local.local_model import LocalModel
    from assaymark.records import GenerateQuery, GenerationSettings, Request

    model, tokenizer = ending_model(str(given.models / given.shape))
    ours = LocalModel.from_loaded(model, tokenizer, n_slots=given.slots)
    list(ours.answer([Request("warm", 0, "", ("A b",), (GenerateQuery(0, GenerationSettings(2)),))]))
    return ours


def their_model(given: argparse.Namespace) -> Any:
    """Return lm-eval's model."""
    from lm_eval.models.huggingface import HFLM

    model, tokenizer = ending_model(str(given.models / given.shape))
    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=given.batch, backend="causal")


def main() -> None:
    """Time one load by turns, or one side alone."""
    inputs = arguments()
    make_models(inputs)
    use_local_data(inputs.data)
    import torch

    from assaymark.records import GenerateQuery, GenerationSettings, Request

    torch.set_num_threads(inputs.threads)
    load = LOADS[inputs.load]
    if load.repeats > 1:
        load = replace(load, repeats=inputs.repeats)
    prompts, until, references = build(load, inputs.samples)
    drawn: dict[str, Any] = {"do_sample": True, "temperature": 1.0} if load.repeats > 1 else {"do_sample": False}
    query = GenerateQuery(0, GenerationSettings(MAX_TOKENS, tuple(until), repeats=load.repeats, **drawn))
    requests = [Request("load", i, "", (text,), (query,)) for i, text in enumerate(prompts)]
    kwargs = {"until": until, "max_gen_toks": MAX_TOKENS, **drawn}
    texts = [prompt for prompt in prompts for _ in range(load.repeats)]
    ours = None if inputs.only == "lm-eval" else our_model(inputs)
    theirs = None if inputs.only == "ours" else their_model(inputs)
    for _ in range(inputs.turns):
        forget_peak()
        outputs: list[Any] = []
        our_seconds = 0.0
        if ours is not None:
            our_seconds, outputs = time_ours(ours, requests)
            tell_ours(ours, outputs, references, our_seconds)
        if theirs is not None:
            seconds, answers = time_lm_eval(theirs, texts, kwargs, inputs.batch)
        if ours is not None and theirs is not None:
            same = sum(each.text == text for each, text in zip(outputs, answers, strict=True))
            print(f"  lm-eval {seconds:.1f} s; ratio {seconds / our_seconds:.2f}; same text {same} of {len(answers)}")
    if inputs.peer:
        tell_peer(inputs, texts, until, outputs, our_seconds)
    if inputs.only is None and not inputs.no_memory:
        print(f"  peak memory: lm-eval {peak_gb('lm-eval'):.2f} GB, ours {peak_gb('ours'):.2f} GB")
    elif inputs.only is not None:
        print(f"peak {peak_since_bytes() / 1e9:.3f} GB")


def tell_peer(
    given: argparse.Namespace, prompts: Sequence[str], until: Sequence[str], outputs: Sequence[Any], our_seconds: float
) -> None:
    """Time transformers' continuous batching and print it beside ours."""
    model, tokenizer = ending_model(str(given.models / given.shape))
    seconds, answers = time_continuous(model, tokenizer, prompts, until)
    same = sum(each.text == text for each, text in zip(outputs, answers, strict=True))
    print(
        f"  transformers' continuous batching {seconds:.1f} s; ratio {seconds / our_seconds:.2f}; "
        f"same text {same} of {len(answers)}",
        flush=True,
    )


def tell_ours(ours: Any, outputs: Sequence[Any], references: Sequence[str], seconds: float) -> None:
    """Print how long our answers took, and how long they are beside the reference answers."""
    n_generated = sum(each.n_tokens for each in outputs)
    reference = sum(len(ours.tokenizer.encode(text)) for text in references) / len(references)
    print(
        f"{len(outputs)} answers, {n_generated / len(outputs):.0f} tokens each (references: {reference:.0f}); "
        f"ours {seconds:.1f} s, {1e3 * seconds / n_generated:.2f} ms a token",
        flush=True,
    )


if __name__ == "__main__":
    main()
