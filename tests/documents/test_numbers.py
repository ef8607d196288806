"""Names of models as lists show them."""

import pytest

from assaymark.results.model_names import names_apart, short_model_name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("org/name", "name"),
        ("/models/SmolLM-135M/hf", "SmolLM-135M/hf"),
        ("/runs/sft-3/checkpoint-500/", "sft-3/checkpoint-500"),
        ("/runs/sft-3/checkpoints/final", "sft-3/checkpoints/final"),
        ("/runs/sft-3/model+/runs/lora-7/adapter", "sft-3/model + adapter"),
        (f"/cache/models--org--name/snapshots/{'0a' * 20}", f"models--org--name/snapshots/{'0a' * 20}"),
        ("hf", "hf"),
        ("/model", "/model"),
    ],
)
def test_a_folder_whose_name_says_nothing_has_its_parents(name: str, shown: str) -> None:
    """The first part from the end that names something is where the name begins."""
    assert short_model_name(name) == shown
    if "+" not in name and name != "/model":
        assert names_apart([name]) == {name: shown}
