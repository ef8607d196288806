"""Greedy text of a real model: our tokens a second beside transformers' `generate` and llama.cpp's, same weights.

SmolLM2-135M-Instruct answers 1, 8 and 32 questions of gsm8k by its chat template, each with exactly `--tokens` tokens;
reading the prompts counts. transformers pads the questions to one batch. llama.cpp decodes all of them in one batch, as
its server does, from a GGUF file with the very weights; it needs `pip install llama-cpp-python`, compiled for this
machine (CMAKE_ARGS=-DGGML_NATIVE=ON). Each side runs in a process of its own; the best of `--turns` counts.

Usage: python benchmarks/generation_peers.py [--dtype float32|bfloat16] [--sizes 1,8,32] [--tokens N] [--turns N]
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import gettempdir
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from tools.real_model import GGUF, real_model

from assaymark.settings import thread_count
from benchmarks.bench import SHARED

Generate = Callable[[Sequence[list[int]]], list[list[int]]]  # prompts -> the tokens that follow each


def prompts_of(data: Path, n: int) -> list[list[int]]:
    """Return the tokens of the first questions of gsm8k, as the model is asked them."""
    from pyarrow import parquet
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(real_model())
    questions = parquet.read_table(data / "openai/gsm8k/main/test.parquet").column("question").to_pylist()[:n]
    asked = [[{"role": "user", "content": text}] for text in questions]
    texts = [tokenizer.apply_chat_template(each, tokenize=False, add_generation_prompt=True) for each in asked]
    return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]


def loaded(given: argparse.Namespace) -> Any:
    """Return the model as transformers loads it."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(real_model(), dtype=given.dtype).eval()


def ours(given: argparse.Namespace) -> Generate:
    """Return our engine."""
    from assaymark.engine.engine import Engine
    from assaymark.engine.generation import GeneratedSequence, GenerationPrompt
    from assaymark.engine.options import EngineSettings

    engine = Engine.load(loaded(given), settings=EngineSettings(n_threads=given.threads))

    def generate(prompts: Sequence[list[int]]) -> list[list[int]]:
        asked = [GenerationPrompt(np.array(each, np.int32), given.tokens, key=str(n)) for n, each in enumerate(prompts)]
        made: dict[int, list[int]] = {}
        for each in engine.generate(asked):
            assert isinstance(each, GeneratedSequence), each
            made[each.index] = list(each.tokens)
        return [made[n] for n in range(len(prompts))]

    return generate


def transformers(given: argparse.Namespace) -> Generate:
    """Return transformers' `generate` on padded batches."""
    import torch

    torch.set_num_threads(given.threads)
    model = loaded(given)
    model.generation_config.eos_token_id = None

    def generate(prompts: Sequence[list[int]]) -> list[list[int]]:
        width = max(map(len, prompts))
        tokens = torch.tensor([[0] * (width - len(each)) + each for each in prompts])
        mask = torch.tensor([[0] * (width - len(each)) + [1] * len(each) for each in prompts])
        with torch.inference_mode():
            made = model.generate(
                tokens, attention_mask=mask, max_new_tokens=given.tokens, do_sample=False, pad_token_id=0
            )
        return [[int(token) for token in row[width:]] for row in made]

    return generate


def gguf_file(dtype: str) -> Path:
    """Write the folder's weights as GGUF in a dtype, with the metadata of the model's own file."""
    import gguf

    path = Path(gettempdir(), f"SmolLM2-135M-{dtype}.gguf")
    if path.exists():
        return path
    read = gguf.GGUFReader(real_model() / GGUF)
    writer = gguf.GGUFWriter(path, "llama")
    for name, field in read.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            sub = field.types[-1] if field.types[0] is gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=sub)
    bfloat16 = gguf.GGMLQuantizationType.BF16
    for tensor in read.tensors:
        rounded = gguf.quantize(gguf.dequantize(tensor.data, tensor.tensor_type), bfloat16)
        if dtype == "bfloat16" and len(tensor.shape) > 1:
            writer.add_tensor(tensor.name, rounded, raw_dtype=bfloat16)
        else:
            writer.add_tensor(tensor.name, gguf.dequantize(rounded, bfloat16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def llama_cpp(given: argparse.Namespace) -> Generate:
    """Return llama.cpp, which decodes the next token of all sequences in one batch."""
    import llama_cpp as lib

    lib.llama_log_set(lib.llama_log_callback(lambda *_: None), None)
    lib.llama_backend_init()
    model = lib.llama_model_load_from_file(str(gguf_file(given.dtype)).encode(), lib.llama_model_default_params())
    n_words = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))

    def decode(context: Any, rows: Sequence[tuple[int, int, int, bool]]) -> list[int]:
        """Add rows of (token, position, sequence, whether its next token is wanted); return those that are."""
        batch = lib.llama_batch_init(len(rows), 0, 1)
        batch.n_tokens = len(rows)
        for at, (token, position, sequence, is_last) in enumerate(rows):
            batch.token[at], batch.pos[at], batch.n_seq_id[at] = token, position, 1
            batch.seq_id[at][0], batch.logits[at] = sequence, is_last
        assert lib.llama_decode(context, batch) == 0
        wanted = [at for at, row in enumerate(rows) if row[3]]
        logits = [np.ctypeslib.as_array(lib.llama_get_logits_ith(context, at), (n_words,)) for at in wanted]
        lib.llama_batch_free(batch)
        return [int(each.argmax()) for each in logits]

    def generate(prompts: Sequence[list[int]]) -> list[list[int]]:
        options = lib.llama_context_default_params()
        longest = -(-(max(map(len, prompts)) + given.tokens) // 256) * 256
        options.n_ctx, options.n_seq_max, options.n_batch = longest * len(prompts), len(prompts), 2048
        options.n_threads = options.n_threads_batch = given.threads
        context = lib.llama_init_from_model(model, options)
        made = [
            decode(context, [(token, at, n, at == len(each) - 1) for at, token in enumerate(each)])
            for n, each in enumerate(prompts)
        ]
        for step in range(given.tokens - 1):
            rows = [(made[n][-1], len(each) + step, n, True) for n, each in enumerate(prompts)]
            for own, token in zip(made, decode(context, rows), strict=True):
                own.append(token)
        lib.llama_free(context)
        return made

    return generate


SIDES: dict[str, Callable[[argparse.Namespace], Generate]] = {
    "ours": ours, "transformers": transformers, "llama.cpp": llama_cpp
}  # fmt: skip


def time_side(given: argparse.Namespace) -> None:
    """Print seconds and tokens of one side for each size, as JSON."""
    sizes = [int(size) for size in given.sizes.split(",")]
    prompts = prompts_of(given.data, max(sizes))
    generate = SIDES[given.only](given)
    generate(prompts[:1])
    result: dict[int, Any] = {}
    for size in sizes:
        seconds = []
        for _ in range(given.turns):
            begin = time.perf_counter()
            made = generate(prompts[:size])
            seconds.append(time.perf_counter() - begin)
        result[size] = {"seconds": min(seconds), "tokens": made}
    print("RESULT " + json.dumps(result))


def main() -> None:
    """Run each side and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--sizes", default="1,8,32")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--threads", type=int, default=thread_count())
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--only", choices=SIDES)
    given = parser.parse_args()
    if given.only:
        time_side(given)
        return
    results: dict[str, Any] = {}
    for side in SIDES:
        command = [sys.executable, *sys.argv, "--only", side]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            why = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]  # a signal writes nothing
            print(f"{side} is left out: {why[0]}")
            continue
        results[side] = json.loads(done.stdout.rpartition("RESULT ")[2])
    for size in results["ours"]:
        print(f"{size} texts of {given.tokens} tokens, {given.dtype}, {given.threads} threads")
        own = results["ours"][size]
        for side, of_size in results.items():
            each = of_size[size]
            n_same = sum(one == other for one, other in zip(each["tokens"], own["tokens"], strict=True))
            speed = int(size) * given.tokens / each["seconds"]
            print(f"  {side:<13}{speed:8.1f} tokens/s  ours {each['seconds'] / own['seconds']:5.2f}x  "
                  f"same text {n_same} of {size}")  # fmt: skip


if __name__ == "__main__":
    main()
