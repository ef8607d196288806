"""The Hub's real client against a server on this machine that speaks the Hub's API."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import assaymark
from assaymark.errors import Unreachable
from assaymark.leaderboard.board_files import board_of_suite, library_suites
from assaymark.leaderboard.submission.checks import Policy, check_submission
from assaymark.leaderboard.submission.choices import read_choices
from assaymark.leaderboard.submission.hub_models import HubModels
from assaymark.leaderboard.submission.sources import ModelMissing
from tests.http_servers import JsonHandler, LoopbackServer, serving

MODEL = Path(assaymark.__file__).parent / "library" / "demo_models" / "small"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
BOARDS = {"gpt4all": board_of_suite(library_suites()["gpt4all"])}


class Hub(JsonHandler):
    """One repository, `demo/small`, at one commit; notes the headers it was sent."""

    headers_seen: list[dict[str, str]] = []  # noqa: RUF012 - reset by the fixture
    sent: dict[str, bytes] = {}  # noqa: RUF012 - files that are sent with another content than is listed

    def do_HEAD(self) -> None:
        """Answer the client's look before a download."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer the model's facts, or one of its files."""
        Hub.headers_seen.append({name.lower(): value for name, value in self.headers.items()})
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/demo/small/tree/"):
            tree = [{"type": "file", "path": each.name, "size": each.stat().st_size, "oid": "0" * 40}
                    for each in sorted(MODEL.iterdir())]  # fmt: skip
            tree.append({"type": "file", "path": "nested/model.safetensors", "size": 5, "oid": "0" * 40})
            self.send_json(tree)
        elif path.startswith("/api/models/demo/small"):
            revision = path.partition("/revision/")[2]
            if revision not in {"", "main", COMMIT}:
                self.send_json({}, 404, {"x-error-code": "RevisionNotFound"})
                return
            self.send_json(self._info())
        elif path.startswith(("/api/models/gated/x", "/gated/x")):
            self.send_json({}, 403, {"x-error-code": "GatedRepo"})
        elif path.startswith("/demo/small/resolve/") and (MODEL / path.rpartition("/")[2]).is_file():
            name = path.rpartition("/")[2]
            content = Hub.sent.get(name) or (MODEL / name).read_bytes()
            tag = hashlib.sha256(content).hexdigest()
            self.send_content(content, 200, {"etag": f'"{tag}"', "x-repo-commit": COMMIT})
        else:
            self.send_json({}, 404, {"x-error-code": "RepoNotFound"})

    def _info(self) -> dict[str, object]:
        files = []
        for file in sorted(MODEL.iterdir()):
            content = file.read_bytes()
            entry: dict[str, object] = {"rfilename": file.name, "size": len(content), "blobId": "0" * 40}
            if file.suffix == ".safetensors":
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
            files.append(entry)
        files.append({"rfilename": "nested/model.safetensors", "size": 5, "blobId": "0" * 40})
        facts = {"cardData": {"license": "apache-2.0"}, "private": False, "gated": False, "tags": ["merge"]}
        counted = {"parameters": {"F16": 369_000}, "total": 369_000}
        return {"id": "demo/small", "sha": COMMIT, "siblings": files, "safetensors": counted, **facts}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubModels]:
    """Serve the repository, and return the real client of it."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", "hf_thehostsowntoken")
    Hub.headers_seen, Hub.sent = [], {}
    with serving(LoopbackServer(Hub)) as server:
        yield HubModels(server.address, tmp_path / "cache")


def test_a_model_is_found_and_pinned_to_its_commit(hub: HubModels) -> None:
    """Facts, card, licence and the weights' hashes come from the API; no token is sent."""
    result = hub.find("demo/small", "main")
    assert (result.revision, result.licence, result.has_template, result.n_parameters) == (
        COMMIT,
        "apache-2.0",
        True,
        369_000,
    )
    digest = hashlib.sha256((MODEL / "model.safetensors").read_bytes()).hexdigest()
    assert result.weights == ("model.safetensors",)
    assert result.digests["model.safetensors"] == digest
    assert result.config["model_type"] == "llama"
    assert len(result.card) > 200
    assert Hub.headers_seen
    assert not any("authorization" in headers for headers in Hub.headers_seen)


def test_it_passes_the_checks_and_is_fetched_whole(hub: HubModels, tmp_path: Path) -> None:
    """The submission is pinned to the commit; what is fetched has the weights, and no code."""
    inputs = {"model": "demo/small", "kind": "chat"}
    chosen, problems = read_choices(lambda name: inputs.get(name, ""), BOARDS)
    checked = check_submission(chosen, problems, [hub], Policy(), "ada")
    assert checked.problems == ()
    assert checked.new is not None
    assert (checked.new.revision, checked.new.source, checked.new.facts["merged"]) == (COMMIT, "hub", True)
    folder = hub.fetch("demo/small", COMMIT, tmp_path / "job")
    assert (folder / "model.safetensors").read_bytes() == (MODEL / "model.safetensors").read_bytes()
    assert (folder / "tokenizer.json").is_file()
    assert not (folder / "nested").exists()


def test_what_is_fetched_is_what_was_listed(hub: HubModels, tmp_path: Path) -> None:
    """Sizes are those of the files that are fetched; weights with another content, or another size, are refused."""
    result = hub.find("demo/small", COMMIT)
    assert "nested/model.safetensors" not in result.sizes
    assert result.n_bytes + result.n_other_bytes == sum(result.sizes.values())
    weights = (MODEL / "model.safetensors").read_bytes()
    Hub.sent = {"model.safetensors": weights[:-1] + bytes([weights[-1] ^ 1])}
    with pytest.raises(ModelMissing, match=r"model.safetensors is not the file that the Hub lists"):
        hub.fetch("demo/small", COMMIT, tmp_path / "job")
    Hub.sent = {"tokenizer.json": b"{}"}
    with pytest.raises((ModelMissing, Unreachable)):
        hub.fetch("demo/small", COMMIT, tmp_path / "other")


def test_what_is_not_there_is_said(hub: HubModels) -> None:
    """An unknown repository, an unknown revision, a gated one: each with its remedy."""
    with pytest.raises(ModelMissing, match="not a public model on the Hub"):
        hub.find("nobody/nothing", "")
    with pytest.raises(ModelMissing, match="has no revision 'v9'"):
        hub.find("demo/small", "v9")
    with pytest.raises(ModelMissing, match="is gated on the Hub"):
        hub.find("gated/x", "")


def test_a_hub_that_cannot_be_reached_is_no_fault_of_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No connection is an error that may pass, not a missing model."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with pytest.raises(Unreachable, match="try again later"):
        HubModels("http://127.0.0.1:9", tmp_path).find("demo/small", "")
