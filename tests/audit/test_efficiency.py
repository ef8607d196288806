"""`audit efficiency`: times in HELM's form, fitted on this machine."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

from assaymark.audit.efficiency import (
    EfficiencyFit,
    LoadMeter,
    MachineLoad,
    TimedAnswer,
    audit_efficiency,
    fit_times,
)
from assaymark.cli.main import main
from assaymark.errors import DataError, PlanError, UsageError
from assaymark.models.fake import FakeModel
from assaymark.records import Output, Request
from tests.models.local.test_local_model import folder

PROMPT = {16: 0.004, 64: 0.011, 256: 0.05}
TOKEN = 0.002


def answers(noise: float = 0.0) -> list[TimedAnswer]:
    """Return times of a machine whose costs are known."""
    draw = np.random.default_rng(1)
    return [
        TimedAnswer(n, m, PROMPT[n] + TOKEN * (m - 1) + noise * float(draw.normal()))
        for n in PROMPT
        for m in range(1, 41)
    ]


def test_known_costs_are_recovered() -> None:
    """Without noise the fit is exact; with noise interval and residuals have its size."""
    exact = fit_times(answers())
    assert exact.token_seconds == pytest.approx(TOKEN)
    assert dict(exact.prompt_seconds) == pytest.approx(PROMPT)
    assert exact.worst_share < 1e-9
    noisy = fit_times(answers(0.001))
    assert noisy.low < TOKEN < noisy.high
    assert noisy.residual_seconds == pytest.approx(0.001, rel=0.15)
    disturbed = [TimedAnswer(each.n_prompt, each.n_answer, 3 * each.seconds) for each in answers()]
    assert fit_times([*disturbed, *answers()]).token_seconds == pytest.approx(TOKEN), "the shortest times count"
    assert not noisy.is_noisy
    assert fit_times(answers(0.1)).is_noisy
    further = np.array([each.n_answer - 1 for each in noisy.answers], dtype=float)
    half = (
        float(scipy.stats.t.ppf(0.975, len(noisy.answers) - 4))
        * noisy.residual_seconds
        / np.sqrt(((further - further.mean()) ** 2).sum())
    )
    assert (noisy.high - noisy.low) / 2 == pytest.approx(half, rel=1e-3)


@pytest.mark.parametrize(
    ("n_prompt", "n_answer", "seconds"),
    [(1, 1, 0.016), (2, 0, 0.00225), (16, 5, 0.338), (17, 5, 0.330625), (100, 32, 2.49953125), (1000, 3, 0.3553125)],
)
def test_estimates_are_helms(n_prompt: int, n_answer: int, seconds: float) -> None:
    """By the same table a request costs what HELM's `_compute_estimated_time_from_prompt_size...` says (63754d05)."""
    table = {1: 0.016, 16: 0.018, 32: 0.020, 256: 0.05}
    made = [TimedAnswer(n, m, value + 0.08 * (m - 1)) for n, value in table.items() for m in (1, 3)]
    assert fit_times(made).seconds(n_prompt, n_answer) == pytest.approx(seconds)


class _SlowModel(FakeModel):
    """Takes 1 ms for ten tokens of a prompt and 2 ms for each token of the answer after the first."""

    def answer(self, requests: Any, **_: Any) -> Iterator[Output]:
        for request in requests:
            yield self._timed(request)

    def _timed(self, request: Request) -> Output:
        n_prompt, n = len("".join(request.segments).split()), request.queries[0].settings.max_tokens  # type: ignore[union-attr]
        time.sleep(0.0001 * n_prompt + 0.002 * ((n or 1) - 1))
        return Output(request.id, 0, text="x", n_context_tokens=n_prompt, n_tokens=n or 1)


@pytest.mark.slow
def test_a_models_times_are_measured() -> None:
    """Of a model that sleeps, the fit has its times, up to what a sleep is too long."""
    fit = audit_efficiency(_SlowModel(), [20, 200], [1, 10], 4)
    assert sorted(fit.prompt_seconds) == [20, 200]
    assert fit.token_seconds == pytest.approx(0.002, rel=0.3)
    assert fit.prompt_seconds[200] - fit.prompt_seconds[20] == pytest.approx(0.018, rel=0.3)
    assert len(fit.answers) == 2 * 2 * 4


@pytest.mark.slow
def test_the_command_measures_a_local_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shared_dir: Path
) -> None:
    """File and store have the machine, its load and every measurement; lengths that do not fit the model are named."""
    file, store = tmp_path / "here.json", ["--store", str(tmp_path / "s.sqlite")]
    model = folder("craftgpt-5m")
    asked = ["audit", "efficiency", model, "--lengths", "8,32,4096", "--answers", "1,12", "--repeats", "3", *store]
    assert main([*asked, "-o", str(file)]) == 0
    printed = capsys.readouterr()
    assert "left out: prompts of 4096 tokens" in printed.err
    assert "each further token of the answer" in printed.out
    made = json.loads(file.read_text())
    assert made["machine"]["n_cores"] >= 1
    assert len(made["answers"]) == 12
    assert made["runtime_per_output_token"] > 0
    assert made["load"]["n_cores"] >= 1
    assert "meanwhile: " in printed.out
    assert ("this machine was busy" in printed.out) == made["load"]["is_busy"]
    assert json.loads(json.dumps(EfficiencyFit.from_json(made).to_json())) == made
    assert main(["ls", "audits", "--json", *store]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["audit"], row["status"], row["tasks"]) == ("efficiency", "finished", [])
    assert main(["show", row["short_id"], "--json", *store]) == 0
    assert json.loads(capsys.readouterr().out) == made
    assert main(["ls", "audits", *store]) == 0
    assert "efficiency" in capsys.readouterr().out
    assert main(["verify", *store]) == 0
    assert main([*asked, "-q"]) == 0
    capsys.readouterr()
    assert main(["ls", "audits", "--json", *store]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2, "each measurement is a new one"


def _stat(file: Path, busy: int, idle: int, stolen: int) -> Path:
    """Write a file like /proc/stat, with ticks of all cores."""
    file.write_text(f"cpu  {busy - 30} 10 10 {idle - 5} 5 5 5 {stolen} 0 0\ncpu0 1 2 3\n")
    return file


@pytest.mark.parametrize(
    ("busy", "idle", "stolen", "others", "steal", "is_busy"),
    [
        (5_000, 95_000, 0, 0.05, 0.0, False),
        (40_000, 60_000, 0, 0.4, 0.0, True),
        (5_000, 90_000, 5_000, 0.05, 0.05, True),
    ],
)
def test_other_work_is_measured(
    tmp_path: Path, busy: int, idle: int, stolen: int, others: float, steal: float, is_busy: bool
) -> None:  # fmt: skip
    """Of the ticks between two readings, those that this process did not use are other processes'."""
    meter = LoadMeter(_stat(tmp_path / "stat", 1_000, 1_000, 0))
    _stat(tmp_path / "stat", 1_000 + busy, 1_000 + idle, stolen)
    load = meter.stop()
    assert load.others == pytest.approx(others, abs=0.005)
    assert load.steal == pytest.approx(steal)
    assert load.is_busy is is_busy


def test_own_work_is_not_others(tmp_path: Path) -> None:
    """A second of a processor that this process used is taken off."""
    meter = LoadMeter(_stat(tmp_path / "stat", 100, 100, 0))
    began = time.process_time()
    while time.process_time() - began < 0.5:
        pass
    _stat(tmp_path / "stat", 100 + 60, 100 + 40, 0)  # 100 ticks, of which this process used 50
    others = meter.stop().others
    assert others is not None
    assert others == pytest.approx(0.1, abs=0.05)


def test_without_shares_the_load_average_decides(tmp_path: Path) -> None:
    """Where the system does not say what processors did, a load above half of the cores is a busy machine."""
    load = LoadMeter(tmp_path / "nothing").stop()
    assert (load.others, load.steal) == (None, None)
    assert not MachineLoad(4, 1.9, 2.0).is_busy
    assert MachineLoad(4, 2.1, 2.0).is_busy
    assert MachineLoad(4).line() == "not known on this system"


@pytest.mark.parametrize(
    ("lengths", "tokens", "error", "message"),
    [
        ([16], [8], UsageError, "at least two different numbers"),
        ([0], [1, 8], UsageError, "all from 1"),
        ([10**9], [1, 8], PlanError, "name shorter ones"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    lengths: list[int], tokens: list[int], error: type[Exception], message: str
) -> None:
    """One number of tokens says nothing of a token's time; prompts must fit the model."""
    model = FakeModel()
    if error is PlanError:
        object.__setattr__(model.identity, "max_length", 128)
    with pytest.raises(error, match=message):
        audit_efficiency(model, lengths, tokens, 2)


def test_answers_that_end_at_once_are_no_measurement() -> None:
    """If all answers have one length, the time of a token is unknown."""
    with pytest.raises(DataError, match="end them at once"):
        fit_times([TimedAnswer(n, 1, 0.1) for n in (16, 64) for _ in range(5)])


@pytest.mark.parametrize("lengths", ["", "16,x", "0", "-3", "99999999999"])
def test_lengths_are_whole_numbers(lengths: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Anything else is refused before the model is opened."""
    assert main(["audit", "efficiency", "nowhere", "--lengths", lengths]) == 2
    assert "expected whole numbers of tokens" in capsys.readouterr().err
