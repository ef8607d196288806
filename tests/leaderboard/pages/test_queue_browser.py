"""In a real browser with real workers: submitted, evaluated though a worker is killed, reported, answered, renamed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assaymark
from assaymark.leaderboard.submission.queue import SubmissionQueue
from assaymark.store import Store

pytestmark = pytest.mark.slow
MODELS = Path(assaymark.__file__).parent / "library" / "demo_models"
BOARD = "title: Demo queue\nname: demo\ntasks: [demo_letters, demo_facts, demo_sums]\n"
PATIENCE_MS = 240_000


class Host:
    """A server and workers over one store, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = str(folder / "store.sqlite")
        (folder / "demo.yaml").write_text(BOARD)
        self.environment = {
            **os.environ,
            "ASSAYMARK_HOME": str(folder / "home"),
            "ASSAYMARK_THREADS": "1",
            "ASSAYMARK_LEASE_SECONDS": "6",
            "HF_TOKEN": "hf_thehostsowntoken",
        }
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start a command of assaymark; its log goes to a file."""
        log = (self.folder / f"{words[0]}{len(self.processes)}.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", "assaymark", *words, "--store", self.store],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self.processes.append(process)
        return process

    def serve(self) -> str:
        """Start the server; return its address."""
        folder = ("--allow_folder", str(MODELS))
        process = self.start("serve", "demo.yaml", "--port", "0", "--submissions", "--no_hub", *folder)
        assert process.stdout is not None
        return process.stdout.readline().split(" at ")[1].split()[0].rstrip("/")

    def worker(self) -> "subprocess.Popen[str]":
        """Start a worker."""
        return self.start("worker", "demo.yaml", "--allow_folder", str(MODELS), "--limit", "40")

    def token(self, name: str, role: str = "submitter") -> str:
        """Return a token."""
        words = [sys.executable, "-m", "assaymark", "board", "token", name, "--role", role]
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Return a host whose processes end with the test."""
    result = Host(tmp_path)
    yield result
    for process in result.processes:
        process.kill()
        process.communicate()


def sign_in(page: Any, url: str, token: str) -> None:
    """Sign in by the form."""
    page.goto(f"{url}/sign-in")
    page.fill("#account", token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"{url}/queue")


def submit(page: Any, url: str, model: str) -> str:
    """Submit a model by the form; return its submission's id."""
    page.goto(f"{url}/submit")
    page.fill("#model", model)
    page.get_by_role("button", name="Check and submit").click()
    page.wait_for_url("**/submission/*")
    return str(page.url.rpartition("/")[2])


def wait_until_running(store: Store) -> Any:
    """Return the first job that is being evaluated."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for job in SubmissionQueue(store).jobs_in("running"):
            if job.stage.startswith("evaluating"):
                return job
        time.sleep(0.2)
    raise AssertionError("no job was evaluated")


def refuse_arguments(page: Any, url: str, shots: Path) -> None:
    """A name that carries an argument is refused, with what was entered kept."""
    page.goto(f"{url}/submit")
    page.fill("#model", "x,trust_remote_code=True")
    page.get_by_role("button", name="Check and submit").click()
    page.wait_for_selector(".problems")
    assert "Expected a name as on the Hub" in page.inner_text(".problems")
    assert page.input_value("#model") == "x,trust_remote_code=True"
    page.screenshot(path=shots / "1_refused.png")


def evaluate_with_a_kill(page: Any, url: str, host: Host, submissions: tuple[str, str], shots: Path) -> None:
    """One worker is killed in the middle of a job; two others finish both, that job in a second attempt."""
    with Store.open(host.store) as store:
        killed = host.worker()
        job = wait_until_running(store)
        page.goto(f"{url}/submission/{job.submission}")
        page.screenshot(path=shots / "3_running.png")
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        host.worker()
        host.worker()
        page.goto(f"{url}/queue")
        page.screenshot(path=shots / "4_queue.png")
        for submission in submissions:
            page.goto(f"{url}/submission/{submission}")
            page.wait_for_selector(".state-finished", timeout=PATIENCE_MS)  # the page follows by itself
        attempts = {each: SubmissionQueue(store).jobs_of(each)[0].n_attempts for each in submissions}
        assert attempts[job.submission] == 2
        assert sum(attempts.values()) == 3
    page.screenshot(path=shots / "5_finished.png")


def report_and_answer(page: Any, other: Any, url: str, shots: Path) -> str:
    """A reader without an account reports a model, its submitter replies; return the report's address."""
    other.goto(f"{url}/model/small")
    other.get_by_role("link", name="Reports on this model").click()
    other.fill("#text", "Its answers repeat the questions of the test set word for word.")
    other.get_by_role("button", name="Report").click()
    other.wait_for_url("**/flag/*")
    page.goto(other.url)
    page.fill("#text", "It was trained on stories only; see the card.")
    with page.expect_navigation():
        page.get_by_role("button", name="Reply").click()
    page.wait_for_selector("article")
    assert "submitter of the model" in page.inner_text("article")
    page.screenshot(path=shots / "7_flag.png")
    return str(other.url)


def moderate(boss: Any, url: str, flag: str, submission: str, shots: Path) -> None:
    """A moderator rejects the report and renames the model."""
    boss.goto(flag)
    boss.get_by_role("button", name="Reject").click()
    boss.wait_for_selector(".state-rejected")
    boss.goto(f"{url}/submission/{submission}")
    boss.fill("#new", "demo/small-v2")
    boss.get_by_role("button", name="Rename").click()
    boss.wait_for_url("**/moderation")
    boss.screenshot(path=shots / "8_moderation.png")


def names(page: Any) -> list[str]:
    """Return the names of a leaderboard's models."""
    return sorted(page.locator("table.board tbody a.name").all_inner_texts())


def test_submitted_evaluated_reported_answered_and_renamed(host: Host, browser: Any, tmp_path: Path) -> None:
    """The whole way of two models through the queue, with a worker killed in the middle."""
    url = host.serve()
    complaints: list[str] = []
    page, other, boss = (browser.new_context().new_page() for _ in range(3))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    sign_in(page, url, host.token("ada"))
    page.goto(f"{url}/submit")
    assert not page.locator("#base").is_visible()
    page.select_option("#weights", "adapter")
    assert page.locator("#base").is_visible()
    refuse_arguments(page, url, tmp_path)
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    first, second = submit(page, url, "small"), submit(page, url, "large")
    page.screenshot(path=tmp_path / "2_waiting.png")
    evaluate_with_a_kill(page, url, host, (first, second), tmp_path)
    page.goto(f"{url}/submission/{first}")
    page.get_by_role("link", name="Results and every sample").click()
    page.get_by_text("A worker of a leaderboard evaluated it").wait_for()
    page.goto(f"{url}/board/demo")
    assert names(page) == ["large", "small"]
    assert page.locator("td.rank").first.inner_text().strip().startswith("1")
    page.screenshot(path=tmp_path / "6_board.png", full_page=True)

    flag = report_and_answer(page, other, url, tmp_path)
    page.goto(f"{url}/board/demo")
    assert page.get_by_role("link", name="flagged").count() == 0
    report = page.get_by_role("link", name="1 report", exact=True)
    assert report.bounding_box()["height"] >= 24
    report.click()
    page.wait_for_url("**/flags?model=small")
    sign_in(boss, url, host.token("boss", "moderator"))
    moderate(boss, url, flag, first, tmp_path)
    page.goto(f"{url}/model/small")
    assert page.url == f"{url}/model/demo/small-v2"
    page.goto(f"{url}/board/demo")
    assert names(page) == ["demo/small-v2", "large"]
    assert page.get_by_role("link", name="report", exact=False).filter(has_text="1 report").count() == 0
    assert complaints == []
