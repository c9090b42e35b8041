"""Optimisers: optimiser.zero_grad(); loss.backward(); optimiser.step()."""

from quern._core import LAMB, SGD, Adam, AdamW, Muon, Optimizer, Tensor, ValueError, clip_grad_norm, clip_grad_value  # noqa: A004


def _reduce(self):
    """For pickles and copies: how it was made, what it remembers, and what was set since."""
    base, *made_of = self.__dict__.get("_made_of", (None,))
    remembered = [self.lr, *base.state(self)] if base else []
    return _restored, (type(self), base, made_of, remembered), self.__dict__


def _restored(kind, base, made_of, remembered):
    self = kind.__new__(kind)
    if base:
        base.__init__(self, *made_of)
        for now, before in zip([self.lr, *base.state(self)], remembered):
            now.assign(before).realize()
    return self


Optimizer.__reduce__ = _reduce


class LARS(Optimizer):
    """SGD with steps in proportion to the norm of the parameter. classic: the momentum is of steps, not of gradients. pre_wd: the
    decay is of the gradient, not of the parameter. ns_steps: the momentum is made orthogonal, as Muon does. tcoef=0: SGD."""

    def __init__(self, params: list[Tensor], lr=0.001, momentum=0.9, weight_decay=1e-4, ns_steps=0, ns_coefficients=None,
                 nesterov=False, classic=True, pre_wd=True, tcoef=0.001, device=None, fused=False):
        super().__init__(params, lr, device, fused)
        for name, value, most in (("momentum", momentum, 1), ("weight_decay", weight_decay, 1e30), ("tcoef", tcoef, 1e30)):
            if not 0 <= value <= most:
                raise ValueError(f"LARS: {name} is {value}, expected 0 to {most}")
        if ns_steps and not ns_coefficients:
            raise ValueError(f"LARS: ns_steps is {ns_steps}, and there are no ns_coefficients")
        self.momentum, self.wd, self.nesterov, self.classic, self.pre_wd = momentum, weight_decay, nesterov, classic, pre_wd
        self.ns_steps, self.ns_coefficients, self.tcoef = ns_steps, ns_coefficients, tcoef
        self.velocity = self._new_optim_param() if momentum else []

    def state(self) -> list[Tensor]:
        """What it remembers of earlier steps."""
        return self.velocity

    def _rate(self, p, g):
        if self.tcoef == 0:
            return self.lr
        size, slope = p.square().sum().sqrt(), g.square().sum().sqrt()
        trust = self.tcoef * size / (slope + self.wd * size)
        return self.lr * ((size > 0) & (slope > 0)).where(trust, 1.0)

    def _step(self, params, grads):
        steps, updated = [], []
        for i, (p, g) in enumerate(zip((p.detach() for p in params), grads)):
            rate = self._rate(p, g)
            if self.pre_wd and self.wd:
                g = g + self.wd * p
            if self.classic:
                g = rate * g
            if self.momentum:
                updated.append(self.velocity[i].assign(self.momentum * self.velocity[i] + g))
                g = g + self.momentum * self.velocity[i] if self.nesterov else self.velocity[i]
            if self.ns_steps:
                g = g.reshape(g.shape[0], -1).newton_schulz(self.ns_steps, self.ns_coefficients).reshape(g.shape)
            if not self.classic:
                g = rate * g
            if not self.pre_wd and self.wd:
                g = g + self.lr * self.wd * p
            steps.append(g)
        return steps, updated


class OptimizerGroup(Optimizer):
    """Several optimisers as one, each with parameters of its own."""

    def __init__(self, *optimizers: Optimizer):
        for part in optimizers:
            if not isinstance(part, Optimizer):
                raise TypeError(f"OptimizerGroup: expected optimizers, got {type(part).__name__}")
        if not optimizers:
            raise ValueError("OptimizerGroup: there are no optimizers")
        found = [p for part in optimizers for p in part.params]
        if len({hash(p) for p in found}) != len(found):
            raise ValueError("OptimizerGroup: two of its optimizers have the same parameter")
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
