"""Every page over real HTTP: what it shows, its JSON twin, its downloads."""

import csv
import html
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pyarrow.parquet as pq
import pytest

from assaymark.cli.main import main
from assaymark.leaderboard.board_files import read_board
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.web.app import create_app
from tests.served import N_PLAIN, Served, running


class Page(HTMLParser):
    """A page's links, tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.scripts: list[dict[str, str | None]] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        inputs = dict(attrs)
        self.tags.add(tag)
        self.attributes |= set(inputs)
        if tag == "a" and inputs.get("href"):
            self.links.append(str(inputs["href"]))
        if tag == "script":
            self.scripts.append(inputs)

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)


def test_the_boards_table_shows_models_with_intervals_and_baselines(client: httpx.Client) -> None:
    """One row for each model and setup, the computed and the cited baselines among them."""
    response = client.get("/board/exam")
    assert response.status_code == 200
    result = client.get("/board/exam.json").json()
    assert result["n_models"] == 3  # two models, one of them on the first ten samples as well
    assert [column["key"] for column in result["columns"]] == ["plain", "hostile"]
    rows = {row["id"]: row for row in result["rows"]}
    plain = rows["baseline-random"]["scores"]["plain"]["value"]
    assert abs(plain - 1 / 3) < 1e-12
    human = rows["baseline-human"]
    assert abs(human["average"]["value"] - (0.935 + 0.80) / 2) < 1e-12  # computed, not typed
    for row in result["rows"]:
        if row["origin"] == "measured":
            cell = row["scores"]["plain"]
            assert cell["low"] < cell["value"] < cell["high"]
            assert cell["n"] in {N_PLAIN, 10}
            assert row["facts"]["type"] == "chat"


def test_a_run_on_some_samples_ranks_apart(client: httpx.Client) -> None:
    """Ten samples are other questions than all of them: two groups, each with a rank 1."""
    rows = [row for row in client.get("/board/exam.json").json()["rows"] if row["origin"] == "measured"]
    ranks = sorted((row["facts"]["prompts"], row["rank"]) for row in rows)
    assert [rank for name, rank in ranks if "first 10 samples" in name] == [1]
    assert sorted(rank for name, rank in ranks if "first 10" not in name) in ([1, 2], [1, 1])


@pytest.mark.slow
def test_every_link_of_every_page_leads_somewhere(client: httpx.Client) -> None:
    """Following all links from the front page finds no page that fails; texts of data sets do not make links."""
    seen: set[str] = set()
    queue = ["/boards", "/compare"]
    while queue and len(seen) < 400:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        response = client.get(path, follow_redirects=True)
        assert response.status_code == 200, path
        if "text/html" in response.headers["content-type"]:
            links = [
                link for link in Page(response.text).links if link.startswith("/") and not link.startswith("/theme")
            ]
            queue += [link.partition("#")[0] for link in links if "sort=" not in link and "pin=" not in link]
    assert any("/samples/plain/" in path for path in seen)
    assert any(path.startswith("/model/") for path in seen)


@pytest.mark.parametrize(
    "path",
    ["/boards", "/board/exam", "/board/exam/about", "/compare?runs={0},{1}", "/run/{0}", "/run/{0}/samples/plain",
     "/run/{0}/samples/plain/3", "/task/plain", "/model/fake-random-1", "/board/exam/charts", "/board/wide/charts"],
)  # fmt: skip
def test_each_page_has_a_json_twin(client: httpx.Client, served: Served, path: str) -> None:
    """The same address with .json is JSON with the page's numbers."""
    place, _, query = path.format(*served.run_ids).partition("?")
    assert client.get(f"{place}?{query}").status_code == 200
    response = client.get(f"{place}.json?{query}")
    assert response.headers["content-type"] == "application/json"
    assert json.loads(response.text)


def test_downloads_hold_every_matching_row_unrounded(client: httpx.Client) -> None:
    """CSV and Parquet have the same rows and columns as the JSON, and follow the search."""
    listed = list(csv.DictReader(io.StringIO(client.get("/board/exam.csv").text)))
    table = pq.read_table(io.BytesIO(client.get("/board/exam.parquet").content)).to_pylist()
    result = client.get("/board/exam.json").json()["rows"]
    assert [row["id"] for row in listed] == [row["id"] for row in table] == [row["id"] for row in result]
    assert [float(row["plain"]) for row in listed] == [row["plain"] for row in table]
    assert list(listed[0]) == list(table[0])
    few = list(csv.DictReader(io.StringIO(client.get("/board/exam.csv?q=nobody&hide=baselines").text)))
    assert few == []


def test_pages_of_a_long_table_hold_each_row_once(client: httpx.Client) -> None:
    """130 rows in pages of 25, in order; hiding merges leaves out those by tag and those by type."""
    pages = [client.get(f"/board/wide.json?per=25&page={n}").json() for n in range(1, 7)]
    names = [row["model"] for page in pages for row in page["rows"]]
    assert len(names) == len(set(names)) == 130
    averages = [row["average"]["value"] for page in pages for row in page["rows"]]
    assert averages == sorted(averages, reverse=True)
    kept = client.get("/board/wide.json?hide=merged").json()
    assert kept["n_matching"] == sum(n % 2 == 1 and n % 7 != 4 for n in range(130))
    assert client.get("/board/wide.json?types=merge").json()["n_matching"] == sum(n % 7 == 4 for n in range(130))
    assert client.get("/board/wide.json?page=99").json()["page"] == 3


def test_search_errors_are_shown_on_the_page(client: httpx.Client) -> None:
    """A typo in a key is named above the table; the rows stay."""
    response = client.get("/board/exam", params={"q": "lisense:mit"})
    assert response.status_code == 200
    assert "unknown search key &#39;lisense&#39;; nearest: license" in response.text
    assert client.get("/board/exam.json", params={"q": "params:<1"}).json()["n_matching"] == 0
    assert client.get("/board/exam.json", params={"q": "license:mit type:chat"}).json()["n_matching"] == 3


def test_sorting_and_pins_are_in_the_address(client: httpx.Client) -> None:
    """The order follows `sort`, the header says so, and pinned rows stand on top."""
    page = client.get("/board/exam?sort=plain")
    assert re.search(r'aria-sort="ascending"[^>]*>\s*<a id="sort-plain"', page.text)
    rows = client.get("/board/exam.json?sort=plain").json()["rows"]
    values = [row["scores"]["plain"]["value"] for row in rows]
    assert values == sorted(values)
    last = rows[-1]["id"]
    assert client.get(f"/board/exam.json?sort=plain&pin={last}").json()["rows"][0]["id"] == last


def test_samples_are_searched_filtered_and_paged(client: httpx.Client, served: Served) -> None:
    """Search by text, wrong only, by category, and the pages together hold all."""
    base = f"/run/{served.run_ids[1]}/samples/plain"
    whole = client.get(f"{base}.json").json()
    assert (whole["n_total"], whole["n_pages"], len(whole["samples"])) == (N_PLAIN, 2, 50)
    assert whole["categories"] == {"even": 30, "odd": 30}
    second = client.get(f"{base}.json?page=2").json()["samples"]
    assert {line["index"] for line in whole["samples"] + second} == set(range(N_PLAIN))
    wrong = client.get(f"{base}.json?wrong=1").json()
    assert wrong["n_matching"] == whole["n_wrong"] == sum(line["wrong"] for line in whole["samples"] + second)
    assert client.get(f"{base}.json?q=number+17").json()["n_matching"] == 1
    assert client.get(f"{base}.json?category=odd").json()["n_matching"] == 30


def test_a_sample_shows_choices_answers_and_other_models(client: httpx.Client, served: Served) -> None:
    """The log-likelihoods on the page are the stored ones; the same sample in the other runs is listed."""
    base = f"/run/{served.run_ids[1]}/samples/plain/4"
    twin = client.get(f"{base}.json").json()
    page = client.get(base).text
    for output in twin["turns"][0]["outputs"]:
        assert f"{output['total_nats']:.3f}" in page
    assert "Which letter follows number 4?" in page
    assert {other["run"] for other in twin["others"]} == set(served.run_ids) - {served.run_ids[1]}


def test_a_comparison_has_the_paired_difference_of_the_command(
    client: httpx.Client, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page's numbers are those of `assaymark compare`: the differences, their chart, then the changed answers."""
    two = list(served.run_ids[1:])
    capsys.readouterr()
    assert main(["compare", *two, "--json", "--store", served.store]) == 0
    command = json.loads(capsys.readouterr().out)
    twin = client.get(f"/compare.json?runs={two[0]}&runs={two[1]}").json()
    ours = {line["name"]: line["difference"] for line in twin["comparison"]["pairs"][0]["tasks"]}
    theirs = {line["name"]: line["difference"] for line in command["pairs"][0]["tasks"]}
    assert ours == theirs
    page = client.get(f"/compare?runs={two[0]},{two[1]}").text
    order = [
        page.index(text)
        for text in (command["verdict"][:40], '<div class="document">', '<svg class="chart', 'id="changed"')
    ]
    assert order == sorted(order)


def test_a_page_that_is_known_is_not_sent_again(client: httpx.Client) -> None:
    """The same address gives the same bytes, compressed or not, and 304 to who has them; another theme is another."""
    first, again = client.get("/board/exam?sort=plain"), client.get("/board/exam?sort=plain")
    plain = client.get("/board/exam?sort=plain", headers={"Accept-Encoding": "identity"})
    assert first.text == again.text == plain.text
    assert (first.headers["content-encoding"], plain.headers.get("content-encoding")) == ("gzip", None)
    tag = {"If-None-Match": first.headers["etag"]}
    assert client.get("/board/exam?sort=plain", headers=tag).status_code == 304
    assert client.get("/board/exam?sort=plain", headers={**tag, "Cookie": "theme=dark"}).status_code == 200


def test_the_about_page_has_commands_and_citations_without_local_paths(client: httpx.Client) -> None:
    """The command names the task files as they lie beside the board's file."""
    twin = client.get("/board/exam/about.json").json()
    assert twin["command"].endswith("--tasks plain.csv,hostile.csv")
    assert [task["command"].rpartition(" ")[2] for task in twin["tasks"]] == ["plain.csv", "hostile.csv"]
    assert "@misc{exam," in twin["bibtex"]
    assert {each["name"] for each in twin["baselines"]} == {"Random", "Majority class", "Human"}


def test_the_theme_is_kept_without_javascript(client: httpx.Client) -> None:
    """A link sets a cookie and leads back; a foreign address is not followed."""
    response = client.get("/theme?to=dark&back=/board/exam%3Fq%3Dx")
    assert (response.status_code, response.headers["location"]) == (303, "/board/exam?q=x")
    assert 'data-theme="dark"' in client.get("/board/exam").text
    for foreign in ("https://example.com", "//example.com", "/\\example.com", "javascript:alert(1)"):
        assert client.get("/theme", params={"to": "dark", "back": foreign}).headers["location"] == "/"


def test_charts_follow_the_filters(client: httpx.Client) -> None:
    """Drawn of the rows that the view leaves, with the values as tables beside them."""
    every = client.get("/board/wide/charts.json").json()
    half = client.get("/board/wide/charts.json?max=20").json()
    assert len(half["score_against"]) < len(every["score_against"])
    assert max(model["measure"] for model in half["score_against"]) <= 20
    page = client.get("/board/wide/charts?max=20").text
    assert page.count('<svg class="chart"') == 3  # no dates, so no chart over time
    assert 'href="/board/wide?params=..20"' in page
    assert "over time" not in page


def test_base_and_derived_models_are_linked_with_their_paired_difference(client: httpx.Client) -> None:
    """Both pages show the difference of the compare page, and the rank within the type."""
    derived = client.get("/model/fake-random-2.json").json()
    base = client.get("/model/fake-random-1.json").json()
    pair = derived["against_base"]
    assert derived["base"] == "fake-random-1"
    assert base["made_from_it"] == [{"model": "fake-random-2", "against_base": pair}]
    compared = client.get(f"/compare.json?runs={pair['base_run']},{pair['derived_run']}").json()
    assert compared["comparison"]["pairs"][0]["overall"]["difference"] == pair["difference"]["difference"]
    page = client.get("/model/fake-random-2").text
    assert "difference to it " in page
    assert re.search(r"[12] of 2 chat \(RLHF", page)
    assert "difference to this one" in client.get("/model/fake-random-1").text


def test_a_models_page_has_its_columns_its_card_and_a_way_to_others(client: httpx.Client, tmp_path: Path) -> None:
    """Columns without a score of it are left out, claims stand below scores; the card is a page and a file."""
    page = client.get("/model/fake-random-1").text
    assert re.search(r'<a href="/compare\?runs=\w+">compare with another model</a>', page)
    assert 'href="/card/fake-random-1"' in page
    card, file = client.get("/card/fake-random-1"), client.get("/card/fake-random-1.md")
    assert file.headers["content-disposition"] == 'attachment; filename="README.md"'
    assert file.text.startswith("---\nmodel-index:")
    assert "model-index" not in card.text  # for the Hub, not for readers
    assert "<h3>Results</h3>" in card.text or "Results</h" in card.text
    assert client.get("/card/nobody").status_code == client.get("/card/nobody.md").status_code == 404
    (tmp_path / "table.csv").write_text("model,A,B\no/a,80,\no/b,60,75\n")
    claims = "claims: [{model: o/a, source: its paper, scores: {A: 85}}]"
    (tmp_path / "board.yaml").write_text(f"title: T\ntable: {{file: table.csv, columns: {{A: A, B: B}}}}\n{claims}\n")
    app = create_app([board_feature(Site([read_board(tmp_path / "board.yaml")]))])
    with running(app) as url:
        own = httpx.get(f"{url}/model/o/a").text
    heads = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', own)
    assert heads == ["Rank", "Setup", "Average", "A"]
    assert re.search(r'title="its paper">claimed 85.0', own)


def test_a_comparison_has_questions_another_baseline_and_its_json(client: httpx.Client, served: Served) -> None:
    """The changed answers stand beside their questions; a link swaps the baseline, another leads to the twin."""
    first, second = served.run_ids[1], served.run_ids[2]
    page = client.get(f"/compare?runs={first},{second}").text
    assert "Which letter follows number" in page
    swapped = html.unescape(re.findall(r'<a href="(/compare\?runs=[^"]+)">[^<]* as the baseline', page)[0])
    assert swapped == f"/compare?runs={second}%2C{first}"
    twin = html.unescape(re.findall(r'href="(/compare\.json[^"]+)"', page)[0])
    (pair,) = client.get(twin).json()["comparison"]["pairs"]
    (other,) = client.get(swapped.replace("/compare", "/compare.json")).json()["comparison"]["pairs"]
    assert pair["labels"] == other["labels"][::-1]
    alone = client.get(f"/compare?runs={first}").text
    assert f"/compare?runs={first},{second}" in alone  # a next step where one run cannot be compared
    assert "Shared tasks" in alone
    assert 'role="alert"' not in alone


def test_every_changed_answer_is_reachable_by_task_and_by_change(client: httpx.Client, served: Served) -> None:
    """Pages and filters show each answer once: as many as the comparison has."""
    first, second = served.run_ids[1], served.run_ids[2]
    (pair,) = client.get(f"/compare.json?runs={first},{second}").json()["comparison"]["pairs"]

    def listed(query: str) -> list[str]:
        address, found = f"/compare?runs={first},{second}{query}", []
        while address:
            page = client.get(address).text
            found += re.findall(r'<th scope="row">(\w+ \d+)</th><td class="snippet">', page)
            after = re.search(r'<a rel="next" href="([^"]+)"', page)
            address = html.unescape(after[1]) if after else ""
        return found

    flips = {f"{flip['task']} {flip['first_index']}": flip for flip in pair["flips"]}
    assert sorted(listed("")) == sorted(flips)
    assert len(flips) > 30  # so there was more than one page
    lost = {name for name, flip in flips.items() if not flip["is_better"]}
    assert set(listed("&change=lost")) == lost
    assert set(listed("&change=gained")) == flips.keys() - lost
    assert set(listed("&task=plain&change=lost")) == {name for name in lost if name.startswith("plain ")}
    assert set(listed("&change=nonsense&page=-1")) == set(flips)


def test_runs_to_compare_are_found_by_words_and_the_oldest_is_the_baseline(
    client: httpx.Client, served: Served
) -> None:
    """Model, id and task are searched; scores stand beside; checkboxes in any order make the oldest the baseline."""
    latest, second, oldest = served.run_ids
    page = client.get("/compare").text
    assert re.search(r"plain <b>\d+\.\d%</b>", page)
    assert page.count('type="checkbox"') == 3
    assert client.get("/compare?q=random-2 plain").text.count('type="checkbox"') == 1
    assert "No run is like that." in client.get("/compare?q=nobody").text
    twin = client.get(f"/compare.json?run={second}&run={oldest}").json()
    assert twin["comparison"]["run_ids"] == [oldest[:8], second[:8]]
    many = client.get("/compare?run=" + ",".join(f"{latest[:-at]}" for at in range(1, 6)))
    assert "5 runs were chosen; choose two to 4" in many.text
