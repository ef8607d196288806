"""Precisions of fewer than sixteen bits: recognising them in checkpoints, and the requirements of loading them.

8bit and 4bit quantise any checkpoint while it is loaded (bitsandbytes). GPTQ and AWQ are properties of a checkpoint,
which its config.json states.
"""

from collections.abc import Mapping
from importlib.util import find_spec

FULL_PRECISIONS = ("float32", "bfloat16", "float16")
QUANTISED: Mapping[str, tuple[str, ...]] = {
    "8bit": ("bitsandbytes", "accelerate"),
    "4bit": ("bitsandbytes", "accelerate"),
    "GPTQ": ("gptqmodel", "optimum"),
    "AWQ": ("gptqmodel", "accelerate"),
}
"""Precision -> the packages with which transformers loads it.

Source: transformers 5.24, quantizers/quantizer_{bnb_8bit,bnb_4bit,gptq,awq}.py, validate_environment.
"""
_METHODS = {"gptq": "GPTQ", "awq": "AWQ"}


def lacking_packages(precision: str) -> tuple[str, ...]:
    """Return the packages that a precision needs and that are not installed here."""
    return tuple(package for package in QUANTISED.get(precision, ()) if find_spec(package) is None)


def quantised_as(config: Mapping[str, object]) -> str:
    """Return the precision of a checkpoint's own quantisation: a key of QUANTISED, or the name of another method.

    config: its config.json, which is not trusted. Empty: it has none.
    """
    own = config.get("quantization_config")
    if not isinstance(own, Mapping):
        return ""
    method = str(own.get("quant_method") or "").lower()
    if method in {"bitsandbytes", ""} and (own.get("load_in_8bit") is True or own.get("load_in_4bit") is True):
        return "8bit" if own.get("load_in_8bit") is True else "4bit"
    return _METHODS.get(method, method[:40] or "an unknown method")


def loading_arguments(precision: str, *, is_quantised: bool = False) -> dict[str, object]:
    """Return the model arguments that load a checkpoint in a precision.

    Args:
        precision: one of FULL_PRECISIONS or QUANTISED.
        is_quantised: whether the checkpoint's own config.json states it already.
    """
    if precision not in QUANTISED:
        return {"dtype": precision}
    if precision == "4bit" and not is_quantised:
        return {"dtype": "bfloat16", "load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat16"}
    if precision == "8bit" and not is_quantised:
        return {"dtype": "float16", "load_in_8bit": True}
    return {"dtype": "float16"}
