"""Replaced matrix products agree with the modules that they replace, and can be undone."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from assaymark.engine import projections  # noqa: E402
from assaymark.engine.projections import FasterProjections, project  # noqa: E402
from tests.engine.test_architectures import SHAPE, tiny_model  # noqa: E402

pytestmark = pytest.mark.skipif(not projections.is_available(), reason="this torch has no oneDNN products")


def test_every_linear_layer_and_gated_block_is_replaced_and_restored() -> None:
    """A llama layer has seven linear layers and one gated block; afterwards nothing remains of the replacement."""
    model = tiny_model("llama", SHAPE)
    ids = torch.arange(3, 20)[None]
    with torch.inference_mode():
        before = model(input_ids=ids).logits
        faster = FasterProjections(model)
        assert len(faster) == 3 * 8 + 1
        during = model(input_ids=ids).logits
        faster.restore()
        after = model(input_ids=ids).logits
    assert float((during - before).abs().max()) < 1e-4
    assert torch.equal(before, after)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_products_of_a_processor_without_them_are_upcast(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seven layers are replaced, and each result is the product in float32, rounded; few rows are left to torch."""
    monkeypatch.setattr(projections, "has_products", lambda kind: kind == torch.float32)
    model = tiny_model("llama", SHAPE).to(dtype)
    layer = model.model.layers[0].self_attn.q_proj
    rows = torch.randn(1, projections.LEAST_UPCAST, layer.in_features, generator=torch.Generator().manual_seed(0))
    rows = rows.to(dtype)
    exact = torch.nn.functional.linear(rows.float(), layer.weight.float()).to(dtype)
    faster = FasterProjections(model)
    try:
        assert "forward" not in model.model.layers[0].mlp.__dict__
        assert "forward" in model.model.layers[0].mlp.down_proj.__dict__
        with torch.inference_mode():
            assert torch.equal(layer(rows), exact)
            few = rows[:, 1:]
            assert torch.equal(layer(few), type(layer).forward(layer, few))
    finally:
        faster.restore()


@pytest.mark.parametrize("n_rows", [1, 2, projections.FEW_ROWS, projections.FEW_HALVES, projections.FEW_HALVES + 1])
@pytest.mark.parametrize("has_bias", [False, True])
def test_bfloat16_products_of_few_rows_are_those_in_float32(n_rows: int, has_bias: bool) -> None:
    """Layers round them to bfloat16, once; the vocabulary's stay in float32."""
    layer = torch.nn.Linear(96, 70_000, bias=has_bias, dtype=torch.bfloat16).requires_grad_(False)
    rows = torch.randn(1, n_rows, 96, generator=torch.Generator().manual_seed(n_rows)).bfloat16()
    bias = layer.bias.float() if has_bias else None
    exact = torch.nn.functional.linear(rows.double(), layer.weight.double(), None if bias is None else bias.double())
    faster = FasterProjections(torch.nn.Sequential(layer))
    try:
        with torch.inference_mode():
            given, raw = layer(rows), projections.project_half(rows, layer.weight)
    finally:
        faster.restore()
    assert given.dtype == torch.bfloat16
    assert float(((given - exact).abs() / (exact.abs() + 0.1)).max()) < 2**-8
    assert raw.dtype == torch.float32
    assert float((raw - torch.nn.functional.linear(rows.double(), layer.weight.double())).abs().max()) < 1e-5


def test_a_block_that_does_more_is_not_replaced() -> None:
    """BitNet's feed-forward has the three layers and a norm in between: the fused form is refused."""
    model = tiny_model("bitnet", SHAPE | {"hidden_act": "silu"})
    model.model.layers[0].mlp.ffn_sub_norm.weight.data *= 3.0
    faster = FasterProjections(model)
    try:
        assert "forward" not in model.model.layers[0].mlp.__dict__
        assert "forward" in model.model.layers[0].mlp.gate_proj.__dict__
    finally:
        faster.restore()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_product_equals_a_linear_layer(dtype: Any) -> None:
    """In any dtype, with and without bias, the result equals torch's own up to rounding."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 8, generator=generator).to(dtype)
    weight = torch.randn(7, 8, generator=generator).to(dtype)
    bias = torch.randn(7, generator=generator).to(dtype)
    for b in (None, bias):
        expected, got = torch.nn.functional.linear(hidden, weight, b), project(hidden, weight, b)
        assert torch.allclose(got, expected, rtol=1e-2, atol=1e-2)
        assert got.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_product_equals_that_of_float32(dtype: Any) -> None:
    """Half weights times half rows, in slices, give what the same numbers give in float32, unrounded."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(2, 3, 16, generator=generator).to(dtype)
    weight = torch.randn(2 * projections.UPCAST_AT_ONCE // 16 + 5, 16, generator=generator).to(dtype)
    expected = torch.nn.functional.linear(hidden.float(), weight.float())
    result = projections.project_half(hidden, weight)
    assert result.dtype == torch.float32
    assert torch.allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_the_precision_of_other_products_is_unchanged() -> None:
    """Whatever setting a half product uses while it runs, float32 products afterwards are exact again."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(4, 64, generator=generator)
    weight = torch.randn(8, 64, generator=generator)
    before = torch.nn.functional.linear(hidden, weight)
    projections.project_half(hidden.bfloat16(), weight.bfloat16())
    assert torch.equal(torch.nn.functional.linear(hidden, weight), before)


def test_an_older_torch_does_not_get_half_precision_from_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until 2.13 its float16 products take 2,000 times as long on Xeons with tiles; torch's own are used there."""
    monkeypatch.setattr(torch, "__version__", "2.10.0+cu128")
    projections.has_products.cache_clear()
    try:
        assert not projections.has_products(torch.float16)
        assert projections.has_products(torch.float32) == projections.is_available()
    finally:
        projections.has_products.cache_clear()
