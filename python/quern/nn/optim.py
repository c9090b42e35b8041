"""Optimisers: optimiser.zero_grad(); loss.backward(); optimiser.step()."""

from quern._core import LAMB, LARS, SGD, Adam, AdamW, Muon, Optimizer, Tensor, clip_grad_norm, clip_grad_value


class OptimizerGroup(Optimizer):
    """Several optimisers as one, each with parameters of its own."""

    def __init__(self, *optimizers: Optimizer):
        for part in optimizers:
            if not isinstance(part, Optimizer):
                raise TypeError(f"OptimizerGroup: expected optimizers, got {type(part).__name__}")
        if not optimizers:
            raise ValueError("OptimizerGroup: there are no optimizers")
        self.optimizers = optimizers

    def __getitem__(self, i: int) -> Optimizer:
        return self.optimizers[i]

    def __len__(self) -> int:
        return len(self.optimizers)

    @property
    def params(self) -> list[Tensor]:
        """What they change."""
        return [p for part in self.optimizers for p in part.params]

    @property
    def device(self):
        """Where the parameters of the first are."""
        return self.optimizers[0].device

    @property
    def lr(self) -> Tensor:
        """The learning rate of the first; set, that of all."""
        return self.optimizers[0].lr

    @lr.setter
    def lr(self, lr):
        for part in self.optimizers:
            part.lr = lr

    def zero_grad(self):
        """Forgets the gradients of all parameters."""
        for part in self.optimizers:
            part.zero_grad()

    def schedule_step(self) -> list[Tensor]:
        """The tensors to realize, for step() later."""
        return [t for part in self.optimizers for t in part.schedule_step()]

    def state(self) -> list[Tensor]:
        """What they remember of earlier steps."""
        return [t for part in self.optimizers for t in part.state()]


__all__ = [
    "Adam", "AdamW", "LAMB", "LARS", "Muon", "Optimizer", "OptimizerGroup", "SGD", "clip_grad_norm", "clip_grad_value",
]
