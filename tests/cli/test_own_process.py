"""What the command line sets in a process of its own, and leaves alone in a program that calls it."""

import os
import subprocess
import sys

import pytest

from assaymark.cli.main import LOG_LEVELS, SPINS, main

SCRIPT = "import os, sys; sys.argv = ['assaymark', '--version']; from assaymark.cli.main import main; main(); print(os.environ.get('GOMP_SPINCOUNT'))"  # noqa: E501


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, SPINS), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "None")],
)
def test_waiting_threads_give_their_processor_away_unless_a_variable_says_otherwise(
    variables: dict[str, str], expected: str
) -> None:
    """A user's own setting of GNU OpenMP counts."""
    kept = {name: text for name, text in os.environ.items() if name not in {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**kept, **variables}, capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[-1] == expected


def test_a_program_that_calls_main_keeps_its_variables() -> None:
    """Only the process of a command is the command line's own."""
    before = dict(os.environ)
    assert main(["--version"]) == 0
    assert dict(os.environ) == before


LIBRARIES = """import os, sys, warnings; sys.argv = ['assaymark', *os.environ.get('WORDS', '--version').split()]
from assaymark.cli.main import main; main()
import logging; print(os.environ['TRANSFORMERS_VERBOSITY'], os.environ['VLLM_LOGGING_LEVEL'],
                      logging.getLogger('torch.distributed').isEnabledFor(logging.WARNING),
                      any(each[0] == 'ignore' and each[3] and each[3].match('torch.x') for each in warnings.filters))"""


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, "error ERROR False True"),
     ({"WORDS": "plan --model fake --tasks demo_facts --verbosity debug"}, "error DEBUG False True"),
     ({**dict.fromkeys(LOG_LEVELS, "INFO"), "TORCH_LOGS": "all", "PYTHONWARNINGS": "default"}, "INFO INFO True False")],
)  # fmt: skip
def test_libraries_log_only_what_was_asked_for(variables: dict[str, str], expected: str) -> None:
    """The variables of vLLM, transformers and torch count where the user has set them."""
    kept = {
        name: text for name, text in os.environ.items() if name not in {"TORCH_LOGS", "PYTHONWARNINGS", *LOG_LEVELS}
    }
    ended = subprocess.run(
        [sys.executable, "-c", LIBRARIES], env={**kept, **variables}, capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[-1] == expected
