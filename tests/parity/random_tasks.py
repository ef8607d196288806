"""Random task files, and answers to their requests that follow from the prompts alone: the same for lm-eval and for us.

A task file is drawn from the forms that lm-eval's own task files have: fields, templates, literals and functions for
question, answer and choices, shots of all kinds, filters, metrics with their options, groups, chat templates.
"""

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

WORDS = ("cat", "Dog", "river", "é", "“quote”", "3", "12.5", "A", "of", "\n", "it's", "$5", "日本", "{b}", "50%", "(c)")
ANSWERS = (
    "Paris", "(B)", "A", "C", "12", "3.5", "-4", "yes", "No", "Blue cat", "1,000", "#### 7", "\n\n", ".", "answer:",
    "é", "$5", "Q:", "The answer is B", "A.",
)  # fmt: skip
LETTERS = "ABCDE"
OF_LABELS = {"brier_score": "brier_score", "mcc": "matthews_corrcoef", "f1": "f1"}
OF_TEXTS = {"bleu": "bleu", "chrf": "chrf", "ter": "ter"}
OF_NATS = {
    "perplexity": "perplexity",
    "word_perplexity": "weighted_perplexity",
    "byte_perplexity": "weighted_perplexity",
    "bits_per_byte": "bits_per_byte",
}
FUNCTIONS = '''"""Functions of the task."""


def keep_some(dataset):
    return dataset.filter(lambda row: row["id"] % 3 != 1)


def add_field(dataset):
    return dataset.map(lambda row: {**row, "q": row["q"].strip() + "!"})


def to_text(row):
    return f"<{row['q']}> {row['num']}:"


def to_choice(row):
    return [choice.strip() + "." for choice in row["choices"]]


def results(row, results):
    return {"own": float(row["label"] in results[0])}


def shrunk_mean(items):
    return sum(items) / (len(items) + 1)


def same_start(references, predictions, **options):
    return float(references[0][:1] == predictions[0][:1])
'''


def log_likelihood(kind: str, context: str, text: str) -> tuple[float, bool]:
    """Return nats and whether the text is the greedy one."""
    digest = hashlib.sha256(f"{kind}\0{context}\0{text}".encode()).digest()
    return -10 * int.from_bytes(digest[:8], "big") / 2**64 - len(text), digest[8] < 77


def written(context: str, stops: Sequence[str], repeat: int) -> str:
    """Return a generated text, which ends before the first stop."""
    draw = random.Random(f"{context}\0{repeat}")
    joint = draw.choice((" ", " ", ""))
    text = draw.choice(("", " ")) + joint.join(draw.choice(ANSWERS) for _ in range(draw.randint(1, 6)))
    for stop in stops:
        text = text.partition(stop)[0] if stop else text
    return text


def write_task(folder: Path, seed: int) -> dict[str, Any]:
    """Write the task `drawn`, or a group of that name, with its rows and functions; return the options of the run."""
    draw = random.Random(seed)
    splits = {"test": _rows(draw, 0, draw.randint(3, 12))}
    for at, name in enumerate(("train", "validation"), start=1):
        if draw.random() < 0.5:
            splits[name] = _rows(draw, 100 * at, draw.randint(6, 9))
    config = _config(draw, splits)
    files = {name: str(folder / f"{name}.jsonl") for name in splits}
    for name, rows in splits.items():
        _write_rows(folder / f"{name}.jsonl", rows)
    (folder / "functions.py").write_text(FUNCTIONS, encoding="utf-8")
    names = ["drawn"]
    if draw.random() < 0.3:
        names = [f"drawn_{at}" for at in range(draw.randint(2, 3))]
        _write_yaml(folder / "drawn.yaml", _group(draw, names, config))
    for at, name in enumerate(names):
        own = {**files}
        if at:  # other numbers of samples, so that weights count
            own["test"] = str(folder / f"test_{at}.jsonl")
            _write_rows(Path(own["test"]), splits["test"][at:])
        _write_yaml(folder / f"{name}.yaml", {**config, "task": name, "dataset_kwargs": {"data_files": own}})
    return _options(draw, str(config["output_type"]))


def _write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def _write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    text = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
    path.write_text(re.sub(r"'(!function [\w.]+)'", r"\1", text), encoding="utf-8")


def _rows(draw: random.Random, first: int, n: int) -> list[dict[str, Any]]:
    def text(longest: int) -> str:
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(1, longest)))

    def padded(content: str) -> str:
        return draw.choice(("", "", " ", "\n")) + content + draw.choice(("", "", " "))

    ragged, numeric, same = draw.random() < 0.2, draw.random() < 0.3, draw.randint(2, 5)
    rows = []
    for index in range(first, first + n):
        size = draw.randint(2, 5) if ragged else same
        choices = [str(draw.randint(0, 9)) if numeric else padded(text(3)) for _ in range(size)]
        gold = draw.randrange(size)
        rows.append({
            "id": index, "q": padded(text(6)), "ctx": text(8), "choices": choices, "answer": gold,
            "letter": LETTERS[gold], "letters": list(LETTERS[:size]), "gold_text": choices[gold],
            "answers": [draw.choice(ANSWERS) for _ in range(draw.randint(1, 3))], "num": draw.randint(0, 20),
            "number": draw.choice(("7", "12", "-4", "1000", "3.5")), "yes": draw.random() < 0.5,
            "label": draw.choice(("yes", "no", "Paris")), "kind": draw.choice("xy"), "nested": {"a": text(2)},
        })  # fmt: skip
    return rows


def _config(draw: random.Random, splits: Mapping[str, object]) -> dict[str, Any]:
    kind = draw.choice(["multiple_choice"] * 3 + ["generate_until"] * 3 + ["loglikelihood", "loglikelihood_rolling"])
    config: dict[str, Any] = {"dataset_path": "json", "output_type": kind, "test_split": "test"}
    named = (("train", "training_split"), ("validation", "validation_split"))
    config |= {key: name for name, key in named if name in splits and draw.random() < 0.8}
    config["doc_to_text"] = draw.choice([
        "{{q}}", "q", "Q: {{q}}\nA:", "{{q.strip()}}\nAnswer:", "{{ctx}} {{q}}", "{{q}}\n", "{{nested.a}}?",
        "Q: {{q}}\n{% for each in choices %}{{loop.index}}. {{each}}\n{% endfor %}A:", "{{q}} [{{choices|join(', ')}}]",
        "{{ctx[:10]}}", "{% if yes %}Y {% endif %}{{q}}", "{{ctx | regex_replace('[aeiou]', '')}}", "{{q|trim}} ",
    ])  # fmt: skip
    of_kind = {
        "multiple_choice": _choices,
        "generate_until": _generation,
        "loglikelihood": _likelihood,
        "loglikelihood_rolling": _rolling,
    }
    config |= of_kind[kind](draw, config)
    config |= _wording(draw, list(splits))
    if draw.random() < 0.1:
        config["process_docs"] = f"!function functions.{draw.choice(('keep_some', 'add_field'))}"
    if draw.random() < 0.08 and kind != "loglikelihood_rolling":
        config["doc_to_text"] = "!function functions.to_text"
    return config


def _metrics(draw: random.Random, names: Sequence[str], aggregations: Mapping[str, str]) -> list[dict[str, Any]]:
    entries = []
    for name in dict.fromkeys(draw.choice(names) for _ in range(draw.randint(1, 3))):
        entry: dict[str, Any] = {"metric": name}
        if draw.random() < 0.7:
            entry |= {"aggregation": aggregations.get(name, "mean"), "higher_is_better": name not in OF_NATS}
        if name == "exact_match":
            entry |= {
                option: draw.choice((True, False))
                for option in ("ignore_case", "ignore_punctuation", "ignore_numbers")
                if draw.random() < 0.3
            }
            if draw.random() < 0.3:
                entry["regexes_to_ignore"] = draw.choice(([","], [r"\$"], ["(?s).*#### ", r"\.$"], [r"\s"]))
        entries.append(entry)
    return entries


def _choices(draw: random.Random, _: Mapping[str, Any]) -> dict[str, Any]:
    forms: list[tuple[Any, list[Any]]] = [
        ("choices", ["answer", "{{answer}}", "gold_text", 0, "{{[answer]}}"]),
        ("{{choices}}", ["answer", "{{gold_text}}", "{{choices.index(gold_text)}}"]),
        ("{{letters}}", ["letter", "{{letter}}", "answer"]),
        (list(LETTERS), ["letter", "{{['A', 'B', 'C', 'D', 'E'].index(letter)}}"]),
        (["no", "yes"], ["{{yes|int}}", "{{1 if yes else 0}}", "yes"]),
        ("{{choices|map('trim')|list}}", ["answer"]),
        ({"A": "first", "B": "second", "C": "third", "D": "4", "E": "5"}, ["answer"]),
        ("!function functions.to_choice", ["answer", "{{answer}}"]),
    ]
    choices, golds = draw.choice(forms)
    own = {"doc_to_choice": choices, "doc_to_target": draw.choice(golds)}
    if draw.random() < 0.1:  # Winogrande's form: the choices are in the question
        own |= {"doc_to_text": "answer", "doc_to_target": "{{q}}", "doc_to_choice": "{{choices}}"}
    names = ["acc", "acc_norm", "acc_bytes", "acc_mutual_info", "brier_score", "mcc", "exact_match", "f1"]
    return {**own, "metric_list": _metrics(draw, names, OF_LABELS)} if draw.random() < 0.85 else own


def _generation(draw: random.Random, _: Mapping[str, Any]) -> dict[str, Any]:
    own: dict[str, Any] = {
        "doc_to_target": draw.choice([
            "gold_text", "{{gold_text}}", "number", "{{number}}", "{{answers}}", "answers", "letter", "label",
            "{{num}}", " {{label}}", "{{yes}}", "{{[label]}}",
        ]),
        "metric_list": _metrics(draw, ["exact_match"] * 3 + list(OF_TEXTS), OF_TEXTS),
    }  # fmt: skip
    if draw.random() < 0.15:
        own |= {"doc_to_choice": "choices", "doc_to_target": draw.choice(("answer", "{{answer}}"))}
    if draw.random() < 0.6:
        until = draw.choice((["\n"], ["\n\n"], [".", "\n"], [], ["Q:"], "\n"))
        own["generation_kwargs"] = {"until": until, "max_gen_toks": draw.choice((8, 32)), "do_sample": False}
    if draw.random() < 0.15:
        own["repeats"] = draw.randint(2, 4)
    if draw.random() < 0.6:
        own["filter_list"] = [{"name": f"f{at}", "filter": _filters(draw)} for at in range(draw.randint(1, 2))]
    if draw.random() < 0.1:
        own["process_results"] = "!function functions.results"
        aggregation = draw.choice(("mean", "median", "!function functions.shrunk_mean"))
        own["metric_list"] = [{"metric": "own", "aggregation": aggregation, "higher_is_better": True}]
    elif draw.random() < 0.1:
        own["metric_list"] = [{"metric": "!function functions.same_start", "aggregation": "mean"}]
    return own


def _filters(draw: random.Random) -> list[dict[str, Any]]:
    regex: dict[str, Any] = {"function": "regex", "group_select": draw.choice((0, -1))}
    regex["regex_pattern"] = draw.choice(
        (r"(\d+)", r"#### (\-?[0-9\.\,]+)", r"answer is \(?([A-D])\)?", r"(-?[$0-9.,]{2,})|(-?[0-9]+)", "zzz")
    )
    steps = [
        regex,
        {"function": "remove_whitespace"},
        {"function": "lowercase"},
        {"function": "map", "mapping_dict": {"A": "yes", "12": "7"}, "default_value": "??"},
        {"function": "multi_choice_regex", "regex_pattern": r"(\([A-Z]\))", "ignore_case": True},
        {"function": "multi_choice_regex", "regex_pattern": r"([A-Z])\.?", "fallback": "[x]"},
    ]
    last = draw.choice((["take_first"], ["take_first"], ["majority_vote", "take_first"]))
    return [draw.choice(steps) for _ in range(draw.randint(0, 2))] + [{"function": name} for name in last]


def _likelihood(draw: random.Random, _: Mapping[str, Any]) -> dict[str, Any]:
    target = draw.choice(("gold_text", " {{label}}", "{{num}}", "label"))
    return {"doc_to_target": target, "metric_list": _metrics(draw, ["perplexity", "acc"], OF_NATS)}


def _rolling(draw: random.Random, _: Mapping[str, Any]) -> dict[str, Any]:
    names = ["word_perplexity", "byte_perplexity", "bits_per_byte"]
    return {
        "doc_to_text": "",
        "doc_to_target": draw.choice(("{{ctx}}", "ctx", "{{q}}")),
        "metric_list": _metrics(draw, names, OF_NATS),
    }


def _wording(draw: random.Random, splits: Sequence[str]) -> dict[str, Any]:
    drawn: dict[str, tuple[float, Sequence[Any]]] = {
        "fewshot_split": (0.2, splits),
        "target_delimiter": (0.3, ("", " ", "\n", ": ")),
        "fewshot_delimiter": (0.3, ("\n\n", "\n###\n", "", " ")),
        "description": (0.3, ("Answer the questions.\n\n", "About {{kind}}: ", "{{ctx}}\n\n")),
        "gen_prefix": (0.15, ("Answer:", "The answer is ", "{{kind}} ")),
        "num_fewshot": (0.4, (0, 1, 2, 3)),
    }
    own = {name: draw.choice(values) for name, (share, values) in drawn.items() if draw.random() < share}
    if draw.random() < 0.2:
        of_shots: dict[str, tuple[float, Sequence[Any]]] = {
            "sampler": (0.5, ("first_n", "default")),
            "samples": (0.3, (_rows(draw, 300, 4),)),
            "doc_to_text": (0.3, ("{{q}}", "A shot: {{q}}")),
            "target_delimiter": (0.2, ("", "\n")),
            "fewshot_delimiter": (0.2, ("", "\n--\n")),
        }
        own["fewshot_config"] = {
            name: draw.choice(values) for name, (share, values) in of_shots.items() if draw.random() < share
        }
    return own


def _group(draw: random.Random, names: Sequence[str], config: Mapping[str, Any]) -> dict[str, Any]:
    filters = [each["name"] for each in config.get("filter_list", ())]
    entries = []
    for each in config.get("metric_list", ()):
        entry: dict[str, Any] = {"metric": each["metric"], "aggregation": "mean", "weight_by_size": draw.random() < 0.5}
        if filters:
            entry["filter_list"] = draw.choice((filters, filters[0]))
        if not str(each["metric"]).startswith("!"):
            entries.append(entry)
    return {"group": "drawn", "task": list(names), **({"aggregate_metric_list": entries} if entries else {})}


def _options(draw: random.Random, kind: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if draw.random() < 0.5:
        options["num_fewshot"] = draw.choice((0, 1, 2, 4))
    if draw.random() < 0.3:
        options["limit"] = draw.choice((2, 3, 0.5, 100))
    if draw.random() < 0.3:
        options |= {"apply_chat_template": True, "fewshot_as_multiturn": draw.random() < 0.6}
    if draw.random() < 0.2:
        options["system_instruction"] = draw.choice(("Be brief.", "You are {x}.\n"))
    if draw.random() < 0.1 and kind == "generate_until":
        options["gen_kwargs"] = draw.choice(({"max_gen_toks": 5}, {"until": ["x"]}))
    return options
