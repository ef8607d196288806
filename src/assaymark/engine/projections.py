"""Compute matrix products on the CPU with the faster of two libraries, under the model's own modules.

torch sends float32 products to MKL, which on some processors is slower than oneDNN, which torch also contains; oneDNN
can also apply an activation or a product with a second operand while a result is still in registers. Many processors
have no instructions for products in half precision, and torch's own are then several times slower than those in
float32: such weights are upcast piece by piece, and the result is rounded to the model's dtype. Only the forward
of plain `nn.Linear` modules, and of gated feed-forward blocks made of three of them, is replaced on the instance, after
it has been checked on random input. Weights are not copied; `restore` undoes the replacement.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch.torch_version import TorchVersion

from assaymark.engine.attention import needed_rows
from assaymark.engine.memory import has_tiles
from assaymark.engine.steps import only_pass

if TYPE_CHECKING:
    from transformers.models.llama.modeling_llama import LlamaMLP  # or any other with its names of layers
    from typing_extensions import TypeIs

SMALL_PRODUCT = 1 << 20  # multiplications in float32 up to which torch's own product is faster: oneDNN's begins later
LEAST_ROWS_WITH_TILES = 4  # in float32: on a CPU with tiles oneDNN begins later still
UPCAST_AT_ONCE = 1 << 20  # half-precision weights: a piece that stays in cache
UPCAST_FOR_FEW = 1 << 18  # where it is read only once more
FEW_ROWS = 8  # up to which a product waits for its weights: float32 is as fast as tiles
FEW_HALVES = 16  # rows up to which bfloat16 products are faster with the weights as they lie
LEAST_UPCAST = 32  # rows of input from which upcasting the weights costs less than it saves
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
FLOAT16_SINCE = "2.13"  # the oneDNN of earlier ones (seen: 2.7, 2.10) takes 2,000 times as long on Xeons with tiles
_ACTIVATIONS = {"SiLU": "swish", "SiLUActivation": "swish"}


def is_available() -> bool:
    """Return whether this torch has oneDNN's fused products on the CPU."""
    has_library = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return has_library and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@functools.cache
def has_products(dtype: torch.dtype) -> bool:
    """Return whether oneDNN's products are fast in this dtype on this processor."""
    if dtype == torch.float32:
        return is_available()
    if dtype == torch.float16 and TorchVersion(torch.__version__) < FLOAT16_SINCE:
        return False
    name = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}.get(dtype)
    supported = None if name is None else getattr(torch.ops.mkldnn, name, None)
    return is_available() and supported is not None and bool(supported())


def project(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return hidden @ weight.T + bias, like `torch.nn.functional.linear`.

    Shapes: hidden [..., in]; weight [out, in]; bias [out] or None; result [..., out].
    """
    if weight.device.type == "cpu" and weight.is_contiguous() and has_products(weight.dtype):
        return _product(hidden, weight, bias, "none")
    return torch.nn.functional.linear(hidden, weight, bias)


def project_half(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return hidden @ weight.T for half-precision weights, computed as in float32.

    A GPU multiplies halves exactly and adds in float32, and so does a CPU with tiles for bfloat16. Any other CPU
    upcasts the weights piece by piece, which costs little and avoids a copy in float32.
    Shapes: hidden [..., in]; weight [out, in]; result float32 [..., out].
    """
    rows = hidden.reshape(-1, weight.shape[1])
    if weight.device.type == "cuda" and hidden.dtype == weight.dtype and weight.dtype != torch.float32:
        try:
            product: torch.Tensor = torch.mm(rows, weight.t(), out_dtype=torch.float32)
            return product.view(*hidden.shape[:-1], -1)
        except (RuntimeError, TypeError, NotImplementedError):
            pass  # an older torch: the slices below do the same
    is_exact_in_halves = has_tiles() and hidden.dtype == weight.dtype == torch.bfloat16
    rows = rows.float()
    are_few = is_exact_in_halves and rows.shape[0] <= FEW_ROWS
    result = rows.new_empty(rows.shape[0], weight.shape[0])
    step = max(1, (UPCAST_FOR_FEW if are_few else UPCAST_AT_ONCE) // weight.shape[1])
    upcast = rows.new_empty(min(step, weight.shape[0]), weight.shape[1])  # memory for each piece would be mapped anew
    with _multiplying_as_bfloat16() if is_exact_in_halves and not are_few else nullcontext(are_few) as uses_torch:
        for first in range(0, weight.shape[0], step):
            half = weight[first : first + step]
            part = upcast[: half.shape[0]].copy_(half)
            part_result = result[:, first : first + part.shape[0]]
            if uses_torch:
                torch.mm(rows, part.t(), out=part_result)
            else:
                part_result.copy_(project(rows, part, None))
    return result.view(*hidden.shape[:-1], -1)


@contextmanager
def _multiplying_as_bfloat16() -> Iterator[bool]:
    """Let float32 products round their factors to bfloat16, which is exact for values that came from bfloat16.

    Sums stay in float32. The setting is torch's own and holds for the whole process, so it is reset at once, and not
    changed (yielding False) while another thread runs a model whose float32 products it would round.
    """
    settings = getattr(torch.backends.mkldnn, "matmul")  # noqa: B009 - unknown to torch's own type stubs
    with only_pass() as is_alone:
        if not is_alone:
            yield False
            return
        before = settings.fp32_precision
        settings.fp32_precision = "bf16"
        try:
            yield True
        finally:
            settings.fp32_precision = before


def _product_of_few(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """Return hidden @ weight.T + bias of few rows, with the weights as the left factor, which is not laid out anew."""
    rows = hidden.reshape(-1, weight.shape[1])
    if rows.shape[0] == 1:
        result = torch.mv(weight, rows[0]) if bias is None else torch.addmv(bias, weight, rows[0])
    else:
        factors = (weight, rows.t())
        result = torch.mm(*factors) if bias is None else torch.addmm(bias[:, None], *factors)
        result = result.t().contiguous()
    return result.view(*hidden.shape[:-1], -1)


def _product(hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str) -> torch.Tensor:
    """Return activation(hidden @ weight.T + bias) in one call."""
    result: torch.Tensor = torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001 - what torch.compile itself emits
        hidden, weight, bias, activation, [], ""
    )
    return result


class FasterProjections:
    """The replaced forwards of one model, with the means to restore them."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._exchanged: list[tuple[torch.nn.Module, Callable[[torch.Tensor], torch.Tensor]]] = []
        if not is_available():
            return
        for module in model.modules():
            if _is_plain_linear(module):
                self._exchange(module, _linear_forward(module))
        for module in model.modules():
            forward = _gated_forward(module)
            if forward is not None:
                self._exchange(module, forward)

    def __len__(self) -> int:
        return len(self._exchanged)

    def _exchange(self, module: torch.nn.Module, fused: Callable[[torch.Tensor], torch.Tensor]) -> None:
        """Set a forward on the instance, where it hides the class's own, if `fused` agrees on random input."""
        if "forward" in module.__dict__ or not _agree(module, fused):
            return
        forward = _where_it_pays(module, fused)
        module.__dict__["forward"] = forward
        self._exchanged.append((module, forward))

    def install(self) -> None:
        """Replace the same forwards again, except where a module has got its own forward or hooks meanwhile."""
        for module, forward in self._exchanged:
            if "forward" not in module.__dict__ and not _has_hooks(module):
                module.__dict__["forward"] = forward

    def restore(self) -> None:
        """Restore every module's forward to its class's."""
        for module, forward in self._exchanged:
            if module.__dict__.get("forward") is forward:
                del module.__dict__["forward"]


def _is_plain_linear(module: object) -> "TypeIs[torch.nn.Linear]":
    """Return whether the module is torch's own linear layer on the CPU, in a supported dtype and without hooks."""
    return (
        type(module) is torch.nn.Linear
        and module.weight.device.type == "cpu"
        and module.weight.dtype in DTYPES
        and module.weight.is_contiguous()
        and not _has_hooks(module)
    )


def _has_hooks(module: torch.nn.Module) -> bool:
    """Return whether the module or a part of it has forward hooks, which a fused block would skip."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())  # noqa: SLF001 - no public reader


def _linear_forward(module: torch.nn.Linear) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a forward for a plain linear layer."""

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        weight, bias = _weights(module)
        if weight.dtype == torch.bfloat16 and 0 < hidden.numel() <= FEW_HALVES * weight.shape[1]:
            return _product_of_few(hidden, weight, bias)
        return _product(hidden, weight, bias, "none")

    def forward_upcast(hidden: torch.Tensor) -> torch.Tensor:
        weight, bias = _weights(module)
        result = project_half(hidden, weight)
        return (result if bias is None else result.add_(bias.float())).to(hidden.dtype)

    return forward if has_products(module.weight.dtype) else forward_upcast


def _gated_forward(module: object) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """Return a forward for down(act(gate(x)) * up(x)), or None if the module is not such a block."""
    parts = (getattr(module, name, None) for name in ("gate_proj", "up_proj", "down_proj"))
    linears = [part for part in parts if _is_plain_linear(part)]
    activation = _ACTIVATIONS.get(type(getattr(module, "act_fn", None)).__name__)
    if activation is None or len(linears) < 3:
        return None
    gate, up, down = linears
    if not has_products(gate.weight.dtype):
        return None  # each layer is upcast on its own, and rounded as the model rounds it
    times = torch.ops.mkldnn._linear_pointwise.binary  # noqa: SLF001 - as above

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        gated = _product(hidden, *_weights(gate), activation)
        return _product(times(hidden, gated, *_weights(up), "mul"), *_weights(down), "none")

    return forward


def _weights(linear: object) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return the present weight and bias: a training loop may have replaced the tensors."""
    held = linear.__dict__["_parameters"]
    return held["weight"], held["bias"]


def _where_it_pays(
    module: "torch.nn.Linear | LlamaMLP", fused: Callable[[torch.Tensor], torch.Tensor]
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a forward that uses `fused` where it is faster, and leaves rows at zero if they are not needed.

    After a window's last attention call rows are independent, so the last layer's feed-forward, the most expensive part
    of a layer, is computed only for the needed rows. The module's own forward runs where gradients are recorded, which
    the fused products do not have, and for few rows of a small layer, as when a single sequence is decoded.
    """
    own = type(module).forward
    first, last = _ends(module)
    least = 0  # elements of input from which `fused` is faster
    if first.weight.dtype == torch.float32:
        least = SMALL_PRODUCT // first.out_features + 1
        least = max(least, LEAST_ROWS_WITH_TILES * first.in_features) if has_tiles() else least
    elif not has_products(first.weight.dtype):
        least = LEAST_UPCAST * first.in_features
    elif first.weight.dtype == torch.bfloat16 and first is not last:  # each of its layers has a product of few rows
        least = FEW_HALVES * first.in_features + 1

    def product(hidden: torch.Tensor) -> torch.Tensor:
        return fused(hidden) if hidden.numel() >= least else own(module, hidden)

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            return own(module, hidden)
        if hidden.dim() != 3 or hidden.shape[0] != 1:
            return product(hidden)
        rows = needed_rows(hidden.shape[1])
        if rows is None:
            return product(hidden)
        result = hidden.new_zeros(1, hidden.shape[1], last.out_features)
        if rows.numel():
            result[:, rows] = product(hidden[:, rows])
        return result

    return forward


def _ends(module: "torch.nn.Linear | LlamaMLP") -> tuple[torch.nn.Linear, torch.nn.Linear]:
    """Return the layer that a linear layer or a gated block begins with, and the one that it ends with."""
    return (module, module) if isinstance(module, torch.nn.Linear) else (module.gate_proj, module.down_proj)


@torch.inference_mode()
def _agree(module: "torch.nn.Linear | LlamaMLP", fused: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    """Return whether `fused` equals the module's own result up to rounding, on a few rows of random input."""
    weight = _ends(module)[0].weight
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(1, 3, weight.shape[1], generator=generator).to(weight.dtype)
    try:
        own, other = module(hidden), fused(hidden)
    except (RuntimeError, TypeError):
        return False
    if own.shape != other.shape or own.dtype != other.dtype:
        return False
    scale = float(own.abs().max()) or 1.0
    return float((own - other).abs().max()) <= 64 * torch.finfo(weight.dtype).eps * scale
