"""Pages of runs with perturbed copies: the table of perturbations, and the marked words of a broken copy."""

import html
import json
import re
from pathlib import Path

import httpx
import pytest

import assaymark
from assaymark.leaderboard.commands.serve import open_site
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.models.fake import FakeModel
from assaymark.results.evidence.perturbations import perturbed_from
from assaymark.results.views.run_document import perturbed_cells, perturbed_name, shown_scores
from assaymark.results.views.samples import marked_texts
from assaymark.web.app import create_app
from tests.served import running


@pytest.mark.slow
def test_a_run_shows_its_perturbations_and_a_broken_copy_its_changed_words(
    tmp_path: Path, made_once: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each result is a row, with a link to its copies; on a copy's page exactly the words that differ are marked."""
    monkeypatch.setenv("ASSAYMARK_CACHE", str(made_once))
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        "".join(
            json.dumps(
                {
                    "question": f"Is the {n} of <him> a beautiful   government?",
                    "choices": ["yes", "no"],
                    "answer": n % 2,
                }
            )
            + "\n"
            for n in range(12)
        )
    )
    place = str(tmp_path / "runs.sqlite")
    run = assaymark.evaluate(
        FakeModel(mode="gold", accuracy=0.6), str(rows), perturb="mild_mix,typos:0.3,gender", store=place
    )
    (task,) = {each.task for each in perturbed_from(run.row.extra)}
    copies = f"{task}~typos:0.3"
    record, *_ = run.sample_records(copies, only_broken=True)
    index = record.request.sample_index
    (original,) = [each for each in run.samples(task) if each.request.sample_index == index]
    with (
        running(create_app([board_feature(open_site((), place))])) as url,
        httpx.Client(base_url=url, timeout=20) as client,
    ):
        run_page = client.get(f"/run/{run.id}").text
        page = client.get(f"/run/{run.id}/samples/{copies}/{index}").text
        plain = client.get(f"/run/{run.id}/samples/{task}/{index}").text
    table = run_page.partition("<h2>Perturbations</h2>")[2].partition("</table>")[0]
    listed = [
        [html.unescape(re.sub(r"<[^>]*>", "", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", table.partition("<tbody>")[2])
    ]
    scores = shown_scores(perturbed_from(run.row.extra))
    assert listed == [[each.task, perturbed_name(each), *perturbed_cells(each)] for each in scores]
    assert {name for _, name, *_ in listed} >= {"mild_mix", "typos:0.3", "gender"}
    links = re.findall(r'<a href="([^"]+)">typos:0.3</a>', table)
    assert [httpx.URL(link).path for link in links] == [f"/run/{run.id}/samples/{copies}"]
    changed = [part.text for part in marked_texts(original.request.prompt, record.request.prompt) if part.is_changed]
    assert changed
    marked = [html.unescape(each) for each in re.findall(r"<mark>(.*?)</mark>", page, re.DOTALL)]
    assert marked == changed
    shown = re.search(r'<pre class="text" tabindex="0">(.*?)<span class="boundary"', page, re.DOTALL)
    assert shown is not None
    assert html.unescape(re.sub(r"</?mark>", "", shown[1])) == record.request.prompt
    assert "which was <b>right</b>" in page
    assert "<mark>" not in plain
