"""Optimisers: optimiser.zero_grad(); loss.backward(); optimiser.step()."""

from quern._core import (
    LAMB,
    LARS,
    SGD,
    Adam,
    AdamW,
    Muon,
    Optimizer,
    OptimizerGroup,
    clip_grad_norm,
    clip_grad_value,
)

__all__ = [
    "Adam", "AdamW", "LAMB", "LARS", "Muon", "Optimizer", "OptimizerGroup", "SGD", "clip_grad_norm", "clip_grad_value",
]
