"""What a leaderboard's server answers to a submission."""

from typing import Any

import pytest

from assaymark.errors import UsageError
from assaymark.leaderboard.submission.client import Sent, send
from tests.http_servers import JsonHandler, LoopbackServer, serving


class Answering(JsonHandler):
    """Answers every submission with the same value."""

    answer: Any = None

    def do_POST(self) -> None:
        """Answer."""
        self.read_bytes()
        self.send_json(self.answer)


def sent(answer: object) -> Sent:
    """Send a submission to a server that answers so."""
    handler = type("Handler", (Answering,), {"answer": answer})
    with serving(LoopbackServer(handler)) as server:
        return send(server.url, "/submit", "token", {"model": "a"})


def test_the_answer_has_an_address_and_what_is_wrong() -> None:
    """Problems keep their field, reason and remedy."""
    result = sent({"problems": [{"field": "model", "what": "is empty", "remedy": "name one"}], "passed": ["size"]})
    assert [(each.field, each.what, each.remedy) for each in result.problems] == [("model", "is empty", "name one")]
    assert (result.url, result.passed) == ("", ("size",))
    assert sent({"url": "/submission/1"}).url.endswith("/submission/1")


@pytest.mark.parametrize("answer", [{"problems": 5}, {"problems": ["no"]}, {"problems": [{}]}, {"passed": "size"}])
def test_an_answer_of_another_form_is_an_error(answer: object) -> None:
    """It names the server."""
    with pytest.raises(UsageError, match=r"127.0.0.1.*not a leaderboard's"):
        sent(answer)
