"""A sample's page shows its images, from the store, as types that no browser runs."""

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

pytest.importorskip("PIL")

from assaymark.cli.main import main
from assaymark.leaderboard.routes.boards import board_feature
from assaymark.leaderboard.site import Site
from assaymark.leaderboard.stored import StoredRuns
from assaymark.records import ImagePart
from assaymark.store import Store
from assaymark.web.app import create_app, image_response
from tests.pictures import digit, write_digits
from tests.served import running


def test_a_sample_shows_its_images(tmp_path: Path) -> None:
    """The page names each image; its address gives the file with its type, nosniff and a locked policy."""
    store = str(tmp_path / "runs.sqlite")
    rows = str(write_digits(tmp_path, 2))
    assert main(["run", "--model", "fake", "--tasks", rows, "--store", store]) == 0
    runs = StoredRuns(Store.open_to_read(store))
    (run,) = runs.runs()
    (image,) = runs.sample(run.run_id, "rows", 1)[0].request.images
    sha = image.sha256.removeprefix("sha256:")
    with running(create_app([board_feature(Site([], runs))])) as url, httpx.Client(base_url=url, timeout=20) as client:
        address = f"/run/{run.run_id}/samples/rows/1"
        page = client.get(address)
        assert f'src="{address}/images/{sha}"' in page.text
        assert client.get(f"{address}.json").json()["turns"][0]["images"][0]["sha256"] == image.sha256
        response = client.get(f"{address}/images/{sha}")
        assert response.content == digit(1)
        assert response.headers["content-type"] == "image/png"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "sandbox" in response.headers["content-security-policy"]
        other_sample = f"/run/{run.run_id}/samples/rows/0/images/{sha}"
        beyond = f"/run/{run.run_id}/samples/rows/99999999999/images/{sha}"
        for other in (other_sample, beyond, f"{address}/images/{sha[:-1]}", f"{address}/images/..%2f{sha}"):
            assert client.get(other).status_code == 404, other


@pytest.mark.parametrize("media_type", ["image/svg+xml", "text/html", "application/pdf", ""])
def test_other_types_are_not_served(media_type: str) -> None:
    """A stored run from elsewhere may claim any type; only raster images are sent to browsers."""
    from starlette.exceptions import HTTPException

    part = ImagePart("sha256:0", "image/png", b"<script>")
    assert image_response(part).status_code == 200
    with pytest.raises(HTTPException):
        image_response(replace(part, media_type=media_type))
