"""Code that task files name: imported late, only from trusted folders, and without side effects."""

import random
import sys
from pathlib import Path

import pytest

from assaymark.errors import DataError, MissingExtra, PlanError, UsageError
from assaymark.tasks.bound import BindOptions
from assaymark.tasks.catalog import Catalog
from assaymark.tasks.python_tasks import bind
from tests.tasks.folders import ROWS, bound, task_spec, write_task


def test_code_runs_late_and_only_from_trusted_folders(tmp_path: Path) -> None:
    """Selecting imports nothing; binding imports from the named folder, and refuses code from elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "code.py").write_text("def rows(d): return d\n")
    (elsewhere / "base_yaml").write_text("process_docs: !function code.rows\n")
    folder = tmp_path / "mine"
    (folder / "x").mkdir(parents=True)
    (folder / "boom.py").write_text("raise RuntimeError('imported')\n")
    path = write_task(folder, task_spec(process_docs="!function boom.rows"))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    with pytest.raises(DataError, match=r"boom\.py, line 1, fails to import: RuntimeError: imported"):
        bind(task, BindOptions())
    path = write_task(folder, task_spec("other", include="../elsewhere/base_yaml"))
    (task,) = Catalog.open(lm_eval=False).select([str(path)]).tasks
    with pytest.raises(UsageError, match=f"not a trusted folder.*--include_path {elsewhere}"):
        bind(task, BindOptions())
    write_task(elsewhere, task_spec("there"))
    (task,) = Catalog.open([tmp_path], lm_eval=False).select(["other"]).tasks
    assert bind(task, BindOptions()).n_original == len(ROWS)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (None, r"no file utils\.py beside the task file"),
        ("x = 1", r"utils\.py has no 'f'"),
        ("import surely_absent_module", r"imports 'surely_absent_module', which is not installed"),
        ("def f(rows): return 3", r"process_docs returned int; expected rows"),
        ("def f(rows): raise KeyError('k')", r"utils\.f of task sums failed on the rows.*KeyError"),
    ],
)
def test_faulty_functions_are_named(tmp_path: Path, code: str | None, message: str) -> None:
    """The error about a faulty function of a task names it and the reason."""
    if code is not None:
        (tmp_path / "utils.py").write_text(code)
    with pytest.raises((DataError, PlanError), match=message):
        bound(tmp_path, process_docs="!function utils.f")


def test_edited_code_is_imported_again(tmp_path: Path) -> None:
    """In one session a changed helper is used, as its changed hash requires."""
    hashes, prompts = [], []
    for word in ("one", "two"):
        (tmp_path / "say.py").write_text(f"def text(row): return '{word}'\n")
        task = bound(tmp_path, doc_to_text="!function say.text")
        hashes.append(task.plan.spec_hash)
        prompts.append(next(task.requests()).prompt)
    assert prompts == ["one", "two"]
    assert hashes[0] != hashes[1]


def _hash_and_prompt(folder: Path) -> tuple[str, str]:
    """Return the hash and the first prompt of the small task with `say.py`."""
    task = bound(folder, doc_to_text="!function say.text")
    return task.plan.spec_hash, next(task.requests()).prompt


@pytest.mark.parametrize("beside", ["words.py", "words/__init__.py", "words/deep.py"])
def test_a_file_that_a_helper_imports_is_part_of_the_hash(tmp_path: Path, beside: str) -> None:
    """Editing a file that a task's function file imports changes the task's hash, and the new one is used."""
    where = {"words.py": "words", "words/__init__.py": "words", "words/deep.py": "words.deep"}[beside]
    (tmp_path / beside).parent.mkdir(exist_ok=True)
    (tmp_path / "say.py").write_text(f"from {where} import WORD\ndef text(row): return WORD\n")
    results = []
    for word in ("one", "two", "one"):
        (tmp_path / beside).write_text(f"WORD = '{word}'\n")
        results.append(_hash_and_prompt(tmp_path))
    assert [prompt for _, prompt in results] == ["one", "two", "one"]
    assert results[0] == results[2] != results[1]


def test_imports_are_followed_through_files_that_import_others(tmp_path: Path) -> None:
    """A file two imports away is part of the hash, one that is not imported is not; a circular import terminates."""
    (tmp_path / "say.py").write_text("import near\ndef text(row): return near.far.WORD\n")
    (tmp_path / "near.py").write_text("import json\nimport far\n")
    (tmp_path / "far.py").write_text("WORD = 'far'\ndef late():\n    import near\n")
    first = _hash_and_prompt(tmp_path)
    (tmp_path / "stranger.py").write_text("WORD = 'other'\n")
    assert _hash_and_prompt(tmp_path) == first
    (tmp_path / "far.py").write_text("WORD = 'farther'\ndef late():\n    import near\n")
    assert _hash_and_prompt(tmp_path)[1] == "farther"
    assert _hash_and_prompt(tmp_path)[0] != first[0]


def test_files_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    """Each task's function file finds the helper beside it, and none stays in sys.modules."""
    prompts = []
    for word in ("here", "there"):
        folder = tmp_path / word
        folder.mkdir()
        (folder / "words_of_a_folder.py").write_text(f"WORD = '{word}'\n")
        (folder / "say.py").write_text("from words_of_a_folder import WORD\ndef text(row): return WORD\n")
        prompts.append(_hash_and_prompt(folder)[1])
    assert prompts == ["here", "there"]
    assert "words_of_a_folder" not in sys.modules
    assert not any(str(tmp_path) in each for each in sys.path)


def test_moving_a_folder_keeps_the_hash_of_what_it_imports(tmp_path: Path) -> None:
    """The hash contains no path: the same files in another folder are the same task."""
    hashes = []
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "words.py").write_text("WORD = 'word'\n")
        (folder / "say.py").write_text("from words import WORD\ndef text(row): return WORD\n")
        hashes.append(_hash_and_prompt(folder)[0])
    assert hashes[0] == hashes[1]


def test_lm_evals_functions_need_lm_eval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dotted function of lm_eval names the extra where that is absent."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="lm-eval"):
        bound(tmp_path, process_docs="!function lm_eval.tasks.hellaswag.utils.process_docs")


def test_task_code_has_the_published_seeds_and_no_side_effects(tmp_path: Path) -> None:
    """A shuffle in process_docs gives the same rows each time, and the global generator's state is restored."""
    (tmp_path / "mix.py").write_text(
        "import random\ndef mixed(rows):\n    return rows.select(random.sample(range(len(rows)), len(rows)))\n"
    )
    random.seed(7)
    expected = random.random()
    random.seed(7)
    first = [request.prompt for request in bound(tmp_path, process_docs="!function mix.mixed").requests()]
    assert random.random() == expected
    again = [request.prompt for request in bound(tmp_path, process_docs="!function mix.mixed").requests()]
    assert first == again
    assert first != [request.prompt for request in bound(tmp_path).requests()]


def test_a_samplers_class_draws(tmp_path: Path) -> None:
    """A sampler of the task's own draws rows of the pool or rows of its own."""
    (tmp_path / "draws.py").write_text(
        "class Last:\n"
        "    def __init__(self, rows, rnd=None): self.rows = rows\n"
        "    def set_rnd(self, seed): self.seed = seed\n"
        "    def sample(self, n, eval_doc=None):\n"
        "        return [self.rows[-1], dict(self.rows[0], question=f'seed {self.seed}')][:n]\n"
    )
    config = {"sampler": "!function draws.Last"}
    request = next(bound(tmp_path, BindOptions(num_fewshot=2), fewshot_config=config).requests())
    assert request.prompt.startswith("What is 31 minus 1?\nAnswer: 30\n\nseed 1234\nAnswer: 19\n\n")


def test_a_modules_own_generator_is_restored(tmp_path: Path) -> None:
    """A file that draws from its own generator gives the same rows however often it was used before."""
    (tmp_path / "mix.py").write_text(
        "import random\nrng = random.Random(42)\n"
        "def mixed(rows):\n    return rows.select(rng.sample(range(len(rows)), len(rows)))\n"
    )
    first, second = (
        [request.prompt for request in bound(tmp_path, process_docs="!function mix.mixed").requests()] for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("name", ["os.system", "sys.exit", "subprocess.run", "shutil.rmtree", "builtins.exec"])
def test_installed_modules_are_no_task_code(tmp_path: Path, name: str) -> None:
    """A function of an installed or built-in module is refused: only files beside the task may be used."""
    with pytest.raises((DataError, UsageError), match="only functions of files beside"):
        bound(tmp_path, process_docs=f"!function {name}")


def test_a_functions_name_is_no_path(tmp_path: Path) -> None:
    """Dots that lead out of the folder are refused when the file is read."""
    with pytest.raises(DataError, match=r"expected <module>\.<function>"):
        bound(tmp_path, process_docs="!function ..outside.f")
