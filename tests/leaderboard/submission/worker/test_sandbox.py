"""The sandbox, tried from inside; and what a log may show."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import assaymark
from assaymark import settings
from assaymark.leaderboard.submission.worker.process import job_command
from assaymark.leaderboard.submission.worker.work import log_tail
from assaymark.limits.bubblewrap import find_bubblewrap
from assaymark.limits.resources import Resources

INSIDE = """
import json, os, socket, sys
found = {"environment": dict(os.environ), "home": os.path.exists(sys.argv[1])}
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2)
    found["network"] = True
except OSError:
    found["network"] = False
for name in ("own", "other"):
    try:
        open(sys.argv[3 if name == "own" else 4], "w").write("x")
        found[name] = True
    except OSError:
        found[name] = False
found["model"] = open(sys.argv[5]).read()
found["processes"] = len([one for one in os.listdir("/proc") if one.isdigit()])
sys.path.insert(0, sys.argv[6])
import assaymark, numpy
found["capabilities"] = [line for line in open("/proc/self/status") if line.startswith("CapEff")]
print(json.dumps(found))
"""


def test_the_sandbox_has_no_network_no_home_and_no_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside: our Python and packages, the model, the job's folder; neither tokens, other files nor other processes."""
    sandbox = find_bubblewrap()
    if sandbox is None:
        pytest.skip("bubblewrap is not installed, or cannot start a process here")
    monkeypatch.setenv("HF_TOKEN", "hf_secretofthehost")
    monkeypatch.setenv("ASSAYMARK_STORE", "postgresql://me:secret@db/x")
    secret, model, job = tmp_path / "secret", tmp_path / "models" / "m", tmp_path / "job"
    secret.write_text("secret")
    model.parent.mkdir()
    model.write_text("weights")
    (job / "cwd").mkdir(parents=True)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = str(listening.getsockname()[1])
        inside = [sys.executable, "-c", INSIDE, str(secret), port, str(job / "new"), str(model), str(model)]
        inside.append(str(Path(assaymark.__file__).parent.parent))
        environment = settings.environment_of_job(job, network=False)
        words = job_command(sandbox, inside, job, [model.parent], environment, Resources(4 << 30))
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["home"], result["network"], result["own"], result["other"]) == (False, False, True, False)
    assert result["model"] == "weights"
    assert result["processes"] <= 3
    assert result["capabilities"] == ["CapEff:\t0000000000000000\n"], "root outside has no rights inside"
    assert "secret" not in json.dumps(result["environment"])
    assert result["environment"]["HOME"] == str(job)


def test_of_the_system_no_keys_and_no_other_programs_are_there(tmp_path: Path) -> None:
    """Of /etc/ssl inside: certificates and openssl.cnf; of /opt: what Python and the host's variables name."""
    sandbox = find_bubblewrap()
    if sandbox is None:
        pytest.skip("bubblewrap is not installed, or cannot start a process here")
    (tmp_path / "cwd").mkdir()
    program = "import json, os; print(json.dumps([each if os.path.isdir(each) else '' for each in ('/opt', '/etc/ssl')]"
    program += " + (os.listdir('/etc/ssl') if os.path.isdir('/etc/ssl') else [])"
    program += " + [os.path.join(*each[:1]) for each in os.walk('/opt')]))"
    environment = settings.environment_of_job(tmp_path, network=False) | {"LD_LIBRARY_PATH": "", "CUDA_HOME": ""}
    words = job_command(sandbox, [sys.executable, "-I", "-c", program], tmp_path, [], environment, Resources(4 << 30))
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    in_opt, in_ssl, *others = json.loads(done.stdout)
    assert in_ssl == "/etc/ssl" or not Path("/etc/ssl").is_dir()
    assert {each for each in others if not each.startswith("/opt")} <= {"certs", "openssl.cnf"}
    needed = [Path(each) for each in (sys.prefix, sys.base_prefix) if each.startswith("/opt/")]
    assert in_opt == "" or needed
    for place in (each for each in others if each.startswith("/opt/")):
        assert any(Path(place).is_relative_to(each) or each.is_relative_to(place) for each in needed)


def test_a_jobs_variables_are_a_list_of_harmless_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither step gets a token, a key or the store's address; only the one that fetches gets a proxy."""
    for name in ("HF_TOKEN", "OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "ASSAYMARK_SECRET", "ASSAYMARK_STORE"):
        monkeypatch.setenv(name, "secret-value")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:1")
    for network in (True, False):
        result = settings.environment_of_job(tmp_path, network=network)
        assert "secret-value" not in result.values()
        assert ("HTTPS_PROXY" in result) is network
        assert set(result) < set(os.environ) | {"HF_HOME", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TMPDIR",
                                               "HF_HUB_DISABLE_TELEMETRY", "ASSAYMARK_LEASE_SECONDS",
                                               "ASSAYMARK_PUBLIC_ONLY"}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET https://user:pass@db.example/x", "GET https://db.example/x"),
        ("token hf_abcdefghijklmnop used", "token (hidden) used"),
        ("Authorization: Bearer abc.def-ghijkl", "Authorization: (hidden)"),
        ("api_key='1234567'", "api_key='(hidden)'"),
        ("give tokenizer=PATH, or tokenization: x", "give tokenizer=PATH, or tokenization: x"),
        ("tokenizer_token=abc tokenizer: x", "tokenizer_token=(hidden) tokenizer: x"),
        ("half \ud800 a character", "half  a character"),
        ("PASSWORD=hunter22 next", "PASSWORD=(hidden) next"),
        ("File /root/work/models/x/config.json, line 3", "File config.json, line 3"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("mine: topsecretvalue", "mine: (hidden)"),
        ("org/model at https://huggingface.co/org/model", "org/model at https://huggingface.co/org/model"),
    ],
)
def test_logs_are_redacted(text: str, shown: str) -> None:
    """Tokens, passwords, the given secrets, folders and control characters are removed; names stay."""
    assert log_tail(text, ["topsecretvalue"]) == shown


def test_a_log_is_cut_at_a_line_from_its_end() -> None:
    """The tail begins with a whole line, so that no secret is cut in half."""
    tail = log_tail("\n".join(f"line {n}" for n in range(100_000)))
    assert len(tail) <= 6000
    assert tail.startswith("line ")
    assert tail.endswith("line 99999")


@pytest.mark.parametrize("piece", ["a-", " ", "token", "token ", "/a", "://a", "~a", "bearer ", "\r ", "\x1b["])
def test_a_hostile_log_is_redacted_in_time(piece: str) -> None:
    """Whatever the evaluation writes on standard error, the worker has its tail in two seconds."""
    begun = time.process_time()
    log_tail(piece * (200_000 // len(piece)))
    assert time.process_time() - begun < 2
