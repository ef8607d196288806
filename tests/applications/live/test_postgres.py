"""What SQLite's tests show of feedback, lists, data sets and late spans holds on PostgreSQL too."""

import hashlib
from pathlib import Path

import httpx
import pytest

from assaymark.applications.live.dataset_log import DatasetLog
from assaymark.applications.live.links import signed_link
from assaymark.applications.live.rule_log import RuleLog
from assaymark.applications.traces.trace_log import TraceLog
from assaymark.applications.traces.trace_rows import ScoreCondition, TraceFilter
from tests.applications.live.live_traces import Live, conversation, scorer_file, trace_id
from tests.applications.live.serving_live import serving_live
from tests.applications.traces.sending import span

pytestmark = pytest.mark.slow


def test_feedback_and_lists(postgres_url: str) -> None:
    """The same id is there once, the signed form is taken, and lists find traces by scores of each kind."""
    with serving_live(postgres_url) as served:
        served.send(*conversation(1, more={"session.id": "s1", "gen_ai.response.id": "r1"}))
        served.send(*conversation(2))
        with served.client as client:
            for value in (True, False):
                body = {"trace_id": trace_id(1), "id": "u1", "value": value, "user": "ada", "comment": "a\tb"}
                assert client.post("/v1/feedback", json=body).json()["accepted"] == 1
            for of in ({"session_id": "s1", "name": "a"}, {"response_id": "r1", "name": "b"}):
                assert client.post("/v1/feedback", json={**of, "value": 3}).json()["new"] == 1
        link = signed_link(served.url, trace_id(2), hashlib.sha256(served.token.encode()).digest())
        assert httpx.post(link, data={"completed": "no"}).status_code == 200
        assert httpx.post(link.replace("signature=", "signature=0"), data={"completed": "no"}).status_code == 403
        for name, number in (("thumbs", 1), ("a", 1), ("b", 1), ("completed", 2)):
            wanted = TraceFilter(score=ScoreCondition(name, "<=", 3.0))
            result = TraceLog(served.store).traces(served.project, wanted).traces
            assert [trace.trace_id.hex() for trace in result] == [trace_id(number)], name
        assert len(TraceLog(served.store).scores(served.project, bytes.fromhex(trace_id(1)))) == 3
        assert served.store.verify() == []


def test_late_spans_and_rows(postgres_url: str, tmp_path: Path) -> None:
    """A late span makes a score stale and it is made again; a question is a row once; a project goes as a whole."""
    with Live.open(postgres_url) as live:
        live.rule("polite", f"{scorer_file(tmp_path, 'def polite(output): return 1')}:polite", rate=1.0)
        live.ask(1)
        assert live.score().n_scored == 1
        live.send(span(9, 1, trace=trace_id(1)))
        assert [each.stale is None for each in live.scores(1)] == [False]
        assert live.score().n_scored == 1
        assert [each.stale for each in live.scores(1)] == [None]
        row: dict[str, object] = {"inputs": "x"}
        for expected in (None, bytes.fromhex(trace_id(1))):
            added = DatasetLog(live.store).add(live.project, "d", bytes.fromhex(trace_id(1)), row)
            assert added == expected
        TraceLog(live.store).remove_project("bot")
        assert RuleLog(live.store).rules() == []
        assert DatasetLog(live.store).rows(live.project, "d") == []
