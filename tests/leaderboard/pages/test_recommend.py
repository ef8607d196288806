"""The page that recommends models: its form, its twin, its faults."""

import httpx


def test_the_page_and_its_twin_hold_the_same_recommendation(client: httpx.Client) -> None:
    """Everything is in the address; the page shows each model of the twin with its reason."""
    query = "for=plain&max_params=8&license=mit&where=type%3Achat"
    page = client.get(f"/recommend?{query}")
    assert page.status_code == 200
    result = client.get(f"/recommend.json?{query}").json()["recommendation"]
    (ranking,) = result["rankings"]
    assert [each["rank"] for each in ranking["models"]] == [1, 2]
    for item in ranking["models"]:
        assert item["model"] in page.text
        assert item["reason"].partition(" (")[0] in page.text
    first, second = ranking["models"]
    assert first["value"] >= second["value"]
    assert 0.5 <= first["p_better_than_next"] <= 1.0
    assert client.get("/recommend.json?for=plain&license=gpl").json()["recommendation"]["rankings"][0]["models"] == []


def test_the_form_works_without_javascript(client: httpx.Client) -> None:
    """Without a request there is a form with every capability; what was chosen is checked afterwards."""
    empty = client.get("/recommend")
    assert '<form class="filters" method="get" action="/recommend">' in empty.text
    assert 'name="for" value="maths"' in empty.text
    chosen = client.get("/recommend?for=maths&for=&max_params=").text
    assert 'name="for" value="maths" checked' in chosen
    assert "no evidence for mathematics" in chosen


def test_faults_are_shown_on_the_page(client: httpx.Client) -> None:
    """An unknown capability, a number that is none, hostile text: a page with one line, nothing unescaped."""
    assert "unknown capability &#39;mathz&#39;" in client.get("/recommend?for=mathz").text
    assert "expected a number above 0" in client.get("/recommend?for=maths&max_params=nan").text
    assert "expected a number above 0" in client.get("/recommend?for=maths&top=1e9").text
    hostile = client.get("/recommend", params={"for": "<script>alert(1)</script>", "license": '"><script>'})
    assert hostile.status_code == 200
    assert "<script>alert" not in hostile.text
    assert '"><script>' not in hostile.text
