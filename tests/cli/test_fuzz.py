"""No file of a user ends in anything but a result or one of our errors: YAML, CSV, JSONL, configurations, templates.

Examples are drawn by hypothesis with a fixed seed (`derandomize`), so a failure is the same everywhere.
"""

import json
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assaymark.arena.vote_files import read_votes
from assaymark.errors import AssaymarkError
from assaymark.models.checkpoint.arguments import local_arguments
from assaymark.models.checkpoint.identity import find_folders, identify
from assaymark.options.texts import read_samples
from assaymark.prompts.templates import compile_template
from assaymark.runs.run_options import read_config
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.dialect import FEWSHOT_KEYS, KEYS
from assaymark.tasks.prompt_presets import find_preset
from assaymark.tasks.python_tasks import bind
from assaymark.tasks.rescoring import read_item
from assaymark.tasks.suites import _KEYS as SUITE_KEYS
from assaymark.tasks.suites import _MEMBER_KEYS
from assaymark.tasks.yaml_files import read_suite
from tests.tasks.folders import task_spec, write_rows

N_EXAMPLES = 120
SHAPES = ("num_hidden_layers", "hidden_size", "vocab_size", "max_position_embeddings", "dtype", "text_config")
PRESET = {"name": "p", "system": ["a", "b"], "user": ["a", "b"], "assistant": ["a", "b"], "opening": "x"}
SUITE = {"name": "s", "members": [{"task": "demo_who", "metric": "acc"}]}
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([10**18, -(10**400), 10**4200, 1.5, float("nan"), float("inf"), -0.0]),
    st.sampled_from(
        ["", "x", "acc", "test", "question", "{{question}}", "{{", "{{ 1/0 }}", "{{ a.b.c }}", "{% for", "\0"]
    ),
    st.sampled_from(
        ["os.system", "../../x", "*", "(a+)+$", "[", "\ud800", "1" * 5001, "=1+1", "\x1b[31m", "2020-01-01"]
    ),
    st.text(max_size=8),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=6,
)
HOSTILE_YAML = (
    "[" * 50_000,
    "- " * 50_000,
    "a: " + "{b: " * 3000,
    "\n".join(" " * depth + "a:" for depth in range(2000)),
    "task: &a [*a]",
    "task: &a {b: *a}",
    "a: &a [x, x]\n" + "".join(f"b{i}: &b{i} [*{'a' if i == 0 else f'b{i - 1}'}, *a]\n" * 9 for i in range(9)),
    "\n".join(["l0: &l0 [x]"] + [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 12)]),
    "num_fewshot: " + "1" * 5001,
    "a: 0x" + "f" * 5001,
    "a: 1:" + "59:" * 3000 + "1",
    "a: !!python/object/apply:os.system [ls]",
    "a: !!binary '%%%'",
    "a: !!set {x, y}",
    "? [a]\n: b",
    "\0",
    "\ufeff",
    "---\n---\n",
    "<<: 3",
    "%YAML 9.9\n---\na: b",
)


def fuzzed(n_examples: int = N_EXAMPLES) -> Callable[[Any], Any]:
    """Return hypothesis's settings for these tests: the same examples each time, in one shared folder."""
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(
        max_examples=n_examples, derandomize=True, database=None, deadline=None, suppress_health_check=checks
    )


def works_or_is_refused(function: Callable[[], Any]) -> None:
    """Call a function; it must return, or raise an AssaymarkError with a message."""
    try:
        function()
    except AssaymarkError as error:
        assert str(error)  # noqa: PT017 - either outcome is right


def as_yaml(value: Any) -> str:
    """Return YAML of any value, also one that PyYAML does not write (an integer of 5,000 digits, surrogates)."""
    try:
        return yaml.safe_dump(value, allow_unicode=True)
    except ValueError:
        return json.dumps(json.loads(json.dumps(str(value))))


@cache
def catalog() -> Catalog:
    """Return the catalogue of the library; opening it reads a thousand names of files."""
    return Catalog.open(lm_eval=False)


def prompts_of(path: Path) -> None:
    """Select a file as a task and render its first prompts."""
    for task in catalog().select([str(path)]).tasks:
        list(bind(task, BindOptions(limit=2)).requests())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the rows of small tasks, without access to the Hub."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write_rows(tmp_path)
    return tmp_path


@pytest.mark.slow
@fuzzed()
@given(st.sampled_from([*KEYS, *(f"fewshot_config.{key}" for key in FEWSHOT_KEYS)]), VALUES)
def test_task_files(folder: Path, key: str, value: Any) -> None:
    """A task file with any value under any key gives prompts or an AssaymarkError."""
    outer, _, inner = key.partition(".")
    spec = task_spec("sums", **{"num_fewshot": 1, outer: {inner: value} if inner else value})
    (folder / "t.yaml").write_text(as_yaml(spec), encoding="utf-8", errors="replace")
    works_or_is_refused(lambda: prompts_of(folder / "t.yaml"))


@pytest.mark.slow
@fuzzed()
@given(
    st.sampled_from(
        ["metric", "aggregation", "regex_pattern", "group_select", "fallback", "k", "until", "temperature"]
    ),
    st.sampled_from(["regex", "take_first_k", "multi_choice_regex", "majority_vote", "map", "nothing"]),
    VALUES,
)
def test_filters_metrics_and_generation(folder: Path, key: str, function: str, value: Any) -> None:
    """The same holds for any option of a filter, a metric or generation."""
    spec = task_spec("sums", output_type="generate_until", doc_to_choice=..., doc_to_target="text", metric_list=...)
    spec["filter_list"] = [{"name": "f", "filter": [{"function": function, key: value}]}]
    spec["metric_list"] = [{"metric": "exact_match", key: value}]
    spec["generation_kwargs"] = {key: value}
    (folder / "t.yaml").write_text(as_yaml(spec), encoding="utf-8", errors="replace")
    works_or_is_refused(lambda: prompts_of(folder / "t.yaml"))


@pytest.mark.parametrize("number", range(len(HOSTILE_YAML)))
def test_hostile_yaml_is_refused_everywhere(folder: Path, number: int) -> None:
    """Deep, cyclic, exploding and malformed YAML is refused as task, suite, preset, --config and rescoring item."""
    path = folder / "t.yaml"
    path.write_text(HOSTILE_YAML[number], encoding="utf-8", errors="surrogatepass")
    readers: list[Callable[[], Any]] = [
        lambda: prompts_of(path),
        lambda: read_suite(path),
        lambda: find_preset(str(path)),
        lambda: read_config(path, {"tasks"}),
        lambda: read_item(str(path), "--filter"),
    ]
    for read in readers:
        with pytest.raises(AssaymarkError, match=r"."):
            read()


@fuzzed()
@given(st.sampled_from(sorted(SUITE_KEYS | {f"members.{key}" for key in _MEMBER_KEYS})), VALUES)
def test_suites(folder: Path, key: str, value: Any) -> None:
    """A suite with any value under any key is read or refused."""
    outer, _, inner = key.partition(".")
    spec = {**SUITE, outer: [{**SUITE["members"][0], inner: value}] if inner else value}  # type: ignore[dict-item]
    (folder / "s.yaml").write_text(as_yaml(spec), encoding="utf-8", errors="replace")
    works_or_is_refused(lambda: read_suite(folder / "s.yaml"))


@fuzzed()
@given(st.sampled_from([*PRESET, "system_in_user", "default_system", "trim", "stop", "source"]), VALUES)
def test_presets_and_configs(folder: Path, key: str, value: Any) -> None:
    """A prompt preset, the options of --config, and the positions of --samples are read or refused."""
    (folder / "p.yaml").write_text(as_yaml({**PRESET, key: value}), encoding="utf-8", errors="replace")
    works_or_is_refused(lambda: find_preset(str(folder / "p.yaml")))
    (folder / "c.yaml").write_text(as_yaml({"tasks": value, "limit": value}), encoding="utf-8", errors="replace")
    works_or_is_refused(lambda: read_config(folder / "c.yaml", {"tasks", "limit"}))
    (folder / "samples.json").write_text(as_yaml({"demo_who": value}), encoding="utf-8", errors="replace")
    works_or_is_refused(lambda: read_samples(str(folder / "samples.json")))


@fuzzed()
@given(st.lists(st.lists(st.text("Aa1,;\t|\"'\n\r\0 é=\x1b", max_size=5), max_size=6), max_size=5), st.booleans())
def test_csv(folder: Path, rows: list[list[str]], is_votes: bool) -> None:
    """Any text after a known header is read as questions or votes, or refused."""
    header = "model_a;model_b;winner\n" if is_votes else "question,A,B,answer\n"
    text = header + "\n".join((";" if is_votes else ",").join(row) for row in rows)
    (folder / "mine.csv").write_bytes(text.encode("utf-8"))
    works_or_is_refused(lambda: read_votes(folder / "mine.csv"))
    works_or_is_refused(lambda: prompts_of(folder / "mine.csv"))


@fuzzed()
@given(
    st.binary(max_size=40), st.sampled_from(["csv", "tsv", "jsonl", "json", "parquet", "csv.gz", "jsonl.gz", "yaml"])
)
def test_bytes(folder: Path, data: bytes, suffix: str) -> None:
    """Any bytes under any name are read or refused."""
    path = folder / f"mine.{suffix}"
    path.write_bytes(data)
    works_or_is_refused(lambda: prompts_of(path))


@fuzzed()
@given(
    st.lists(st.dictionaries(st.sampled_from(["question", "answer", "choices", "text", "A", "B"]), VALUES), max_size=3)
)
def test_json_lines(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Rows of any values are rendered or refused."""
    lines = "\n".join(as_json(row) for row in rows)
    (folder / "mine.jsonl").write_text(lines, encoding="utf-8", errors="replace")
    works_or_is_refused(lambda: prompts_of(folder / "mine.jsonl"))


def as_json(value: Any) -> str:
    """Return JSON of any value, an integer of more digits than Python writes as a short one."""
    try:
        return json.dumps(value)
    except ValueError:
        return '{"question": ' + "1" * 5001 + "}"


@pytest.mark.parametrize(
    "text", ["[" * 60_000, '{"question": ' + "[" * 500 + "]" * 500 + "}", '{"a":' * 3000, "1" * 5001]
)
def test_deep_json_is_refused(folder: Path, text: str) -> None:
    """A row that is nested deeply, or an integer of 5,001 digits, is refused with its line."""
    (folder / "mine.jsonl").write_text('{"question": "a", "answer": "b"}\n' + text + "\n", encoding="utf-8")
    with pytest.raises(AssaymarkError, match="line 2"):
        prompts_of(folder / "mine.jsonl")


def write_weights(folder: Path) -> None:
    """Write a safetensors file with two small tensors."""
    header = json.dumps(
        {f"layers.{i}.w": {"dtype": "F32", "shape": [4, 4], "data_offsets": [64 * i, 64 * i + 64]} for i in range(2)}
    ).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(128))


@fuzzed()
@given(st.sampled_from(SHAPES), VALUES, st.booleans())
def test_model_configurations(folder: Path, key: str, value: Any, is_nested: bool) -> None:
    """A config.json with any value under any key names a model or is refused, before anything is allocated."""
    write_weights(folder)
    config = {"model_type": "llama", "num_hidden_layers": 2, "max_position_embeddings": 64}
    config |= {"text_config": {key: value}} if is_nested else {key: value}
    (folder / "config.json").write_text(as_json(config), encoding="utf-8", errors="replace")
    arguments = local_arguments({"pretrained": str(folder), "max_length": 32})
    works_or_is_refused(lambda: identify(arguments, find_folders(arguments)))


@fuzzed()
@given(st.text("{}%# qa.|()[]'\"1/-+*~", max_size=24), VALUES)
def test_templates(text: str, value: Any) -> None:
    """Any template for any row gives text or is refused."""
    works_or_is_refused(lambda: compile_template("{{" + text + "}}")({"q": value, "a": "x"}))
    works_or_is_refused(lambda: compile_template(text)({"q": value, "a": "x"}))
