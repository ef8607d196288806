"""Studies over a real server: by invitation only, blind, in order; nothing of them elsewhere."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from assaymark.arena.routes.studies import studies_feature
from assaymark.arena.studies.sessions import StudySessions, invitations, store_study
from assaymark.arena.studies.study_file import read_study, write_example
from assaymark.arena.studies.study_log import StudyLog
from assaymark.store import Store
from assaymark.web.app import create_app
from assaymark.web.secret import server_secret
from tests.served import running


@pytest.fixture
def links(tmp_path: Path) -> Iterator[tuple[str, list[str], Store]]:
    """Serve the example; return its address, the paths of the invitations, and the store."""
    study = read_study(write_example(tmp_path))
    with Store.open(str(tmp_path / "s.sqlite")) as store:
        store_study(store, study, server_secret(), 0.0)
        with running(create_app([studies_feature(StudySessions(store))])) as url:
            yield url, list(invitations(store, study.study, server_secret()).values()), store


def fields_of(page: str) -> dict[str, str]:
    """Return a form's hidden fields."""
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)"', page))


def test_a_rater_goes_through_by_plain_forms(links: tuple[str, list[str], Store]) -> None:
    """Consent, every comparison, thanks; no model, category or check is named on the way."""
    url, paths, store = links
    with httpx.Client(base_url=url, follow_redirects=True) as client:
        page = client.get(paths[0]).text
        assert "Your consent" in page
        assert client.post(f"{paths[0]}/consent", data=fields_of(page)).status_code == 400
        page = client.post(f"{paths[0]}/consent", data={**fields_of(page), "consent": "yes"}).text
        while "Comparison" in page:
            assert not re.search("careful|brief|Fermi|counterfactual|attention", page)
            response = client.post(f"{paths[0]}/answer", data={**fields_of(page), "q_better": "a", "q_reason": "style"})
            assert response.status_code == 200
            assert response.history[0].status_code == 303
            page = response.text
        assert "Thank you" in page
    rater = StudyLog(store).raters("example")[0]
    assert (rater.state, rater.n_answered) == ("finished", rater.n_assignments)


def test_a_second_answer_that_differs_is_refused(links: tuple[str, list[str], Store]) -> None:
    """The same answer again is taken as sent twice; another one is a 409 that says so, and the first one stays."""
    url, paths, store = links
    with httpx.Client(base_url=url, follow_redirects=True) as client:
        page = client.get(paths[0]).text
        page = client.post(f"{paths[0]}/consent", data={**fields_of(page), "consent": "yes"}).text
        sent = {**fields_of(page), "q_better": "a", "q_reason": "style"}
        statuses = [client.post(f"{paths[0]}/answer", data={**sent, **more}).status_code
                    for more in ({}, {}, {"q_better": "b"}, {"position": sent["position"]})]  # fmt: skip
        assert statuses == [200, 200, 409, 200]
        assert "another answer already" in client.post(f"{paths[0]}/answer", data={**sent, "q_better": "b"}).text
    answered = [row.answers for row in StudyLog(store).assignments("example") if row.answers is not None]
    assert [answers["better"] for answers in answered] == ["a"]


def test_only_the_invitation_shows_a_prompt(links: tuple[str, list[str], Store]) -> None:
    """Pages that anybody can load have no prompt of the study; a wrong invitation is a 404, without a twin."""
    url, paths, store = links
    prompts = [item["prompt"] for item in StudyLog(store).plan("example")["items"]]
    with httpx.Client(base_url=url, follow_redirects=True) as client:
        for path in ("/", "/boards", "/boards.json", "/compare", "/recommend", "/study", "/study/", "/study/example",
                     f"{paths[0]}.json", f"/study/{'0' * 32}", f"/study/{'0' * 32}/answer"):  # fmt: skip
            answer = client.get(path)
            assert not any(prompt in answer.text for prompt in prompts), path
            if path.startswith("/study"):
                assert answer.status_code in {404, 405}
        page = client.get(paths[0])
        assert (page.headers["cache-control"], page.headers["x-robots-tag"]) == ("no-store", "noindex")
        assert not any(prompt in page.text for prompt in prompts)


@pytest.mark.parametrize(
    ("fields", "status"),
    [({"position": "x"}, 400), ({"position": "9" * 30}, 400),
     ({"position": "0", "q_better": "z", "q_reason": "style"}, 400),
     ({"position": "0", "q_better": "a"}, 400), ({"position": "3", "q_better": "a", "q_reason": "style"}, 400)],
)  # fmt: skip
def test_answers_that_are_none_are_refused(
    links: tuple[str, list[str], Store], fields: dict[str, str], status: int
) -> None:
    """With one line, and nothing is stored."""
    url, paths, store = links
    with httpx.Client(base_url=url, follow_redirects=True) as client:
        page = client.get(paths[0]).text
        client.post(f"{paths[0]}/consent", data={**fields_of(page), "consent": "yes"})
        hidden = fields_of(client.get(paths[0]).text)
        answer = client.post(f"{paths[0]}/answer", data={**hidden, **fields})
        assert answer.status_code == status
        assert client.post(f"{paths[0]}/answer", data={"position": "0"}).status_code == 403
    assert StudyLog(store).raters("example")[0].n_answered == 0
