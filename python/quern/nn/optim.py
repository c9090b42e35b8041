"""Optimisers: optimiser.zero_grad(); loss.backward(); optimiser.step(). Plain objects, with their tensors as attributes."""

import math

from quern._core import Error, ShapeError, Tensor, ValueError, clip_grad_norm, clip_grad_value, zeros_beside, shown  # noqa: A004

_ANY = 1e30


def _number(who: str, name: str, value, most: float = _ANY) -> float:
    if isinstance(value, str) or not hasattr(type(value), "__float__"):
        raise TypeError(f"{who}: {name} is {value!r}, expected a number")
    if not 0 <= float(value) <= most:
        raise ValueError(f"{who}: {name} is {value}, expected 0 to {most}")
    return float(value)


def _is_narrow(p: Tensor) -> bool:
    return p.dtype.itemsize < 4  # its changes are computed in float32


def _tensors(given) -> list[Tensor]:
    # a tensor is a sequence, too: of its rows, which are not what is to be trained
    if isinstance(given, (Tensor, str)) or not hasattr(type(given), "__iter__"):
        raise TypeError(f"expected a list of tensors to train, got {shown(given)}")
    found = list(given)
    if not all(isinstance(t, Tensor) for t in found):
        raise TypeError(f"expected a list of tensors to train, got {shown(given)}")
    once: dict[int, Tensor] = {}
    for t in found:
        once.setdefault(hash(t), t)
    return list(once.values())


class Optimizer:
    """Changes its parameters by their gradients, in each step. One of your own is a class with a method _step(params, grads), which
    returns what is to be subtracted from each parameter, and a list of what else it changed."""

    def __init__(self, params: list[Tensor], lr: float, device=None, fused: bool = False):
        who, given = type(self).__name__, _tensors(params)
        self.params: list[Tensor] = [t for t in given if t.is_param]
        self.buffers: list[Tensor] = [t for t in given if not t.is_param]
        if not self.params:
            raise Error(f"{who}: there are no parameters to train")
        for p in self.params:
            p.requires_grad_()
        self.device, self.fused = self.params[0].device, fused
        if device is not None and device != self.device:
            raise Error(f"an optimizer keeps what it remembers on the device of its parameters, {self.device}, not on {device}")
        self.__dict__["lr"] = self._new_number(_number(who, "lr", lr))

    @property
    def lr(self) -> Tensor:
        """The learning rate: a Tensor of one number, which may be set, or assigned to."""
        return self.__dict__["lr"]

    @lr.setter
    def lr(self, value):
        if value is self.lr:
            return
        if not isinstance(value, Tensor):
            self.lr.assign(_number(type(self).__name__, "lr", value)).realize()
        elif value.numel() != 1:
            raise ShapeError(f"lr: expected one number, got a tensor of shape {value.shape}")
        else:
            self.lr.assign(value.cast(self.lr.dtype).reshape(1))

    def _new_number(self, value: float) -> Tensor:
        """In memory, where the parameters are, so that it can change between two runs of one jit."""
        dtype = "float64" if all(p.dtype.name == "float64" for p in self.params) else "float32"
        if isinstance(self.device, tuple):
            return Tensor.full((1,), value, dtype=dtype, device=self.device[0]).contiguous().shard(self.device)
        return Tensor.full((1,), value, dtype=dtype, device=self.device).contiguous()

    def _new_optim_param(self) -> list[Tensor]:
        """A zero of float32, or wider, for each element of each parameter."""
        return [zeros_beside(p, "float32" if _is_narrow(p) else p.dtype) for p in self.params]

    def zero_grad(self):
        """Forgets the gradients of its parameters."""
        for p in self.params:
            p.grad = None

    def step(self):
        """Changes the parameters. Runs."""
        first, *others = self.schedule_step()
        first.realize(*others)

    def schedule_step(self) -> list[Tensor]:
        """The tensors to realize, for step() later."""
        grads = [p.grad for p in self.params]
        for i, grad in enumerate(grads):
            if grad is None:
                raise ValueError(f"step: parameter {i + 1} of {len(grads)} has no gradient; was backward() called, and does the loss "
                                 "depend on it?")
        steps = self._step(self.params, [g.float() if _is_narrow(p) else g for p, g in zip(self.params, grads)])
        if not isinstance(steps, (tuple, list)) or len(steps) != 2 or not all(isinstance(t, Tensor) for part in steps for t in part):
            raise TypeError(f"expected two lists of tensors from _step, got {shown(steps)}")
        changes, updated = map(list, steps)
        if len(changes) != len(grads):
            raise Error(f"_step: {len(changes)} changes for {len(grads)} parameters")
        for p, change in zip(self.params, changes):
            now = (p.float() if _is_narrow(p) else p).detach() - change
            updated.append(p.assign(now.cast(p.dtype)))
        return updated

    def _step(self, params, grads):
        raise NotImplementedError("an optimizer needs a method _step(params, grads)")

    def state(self) -> list[Tensor]:
        """What it remembers of earlier steps."""
        known = {"params", "buffers", "lr"}
        lists = [value if isinstance(value, (list, tuple)) else [value] for name, value in vars(self).items() if name not in known]
        return [t for values in lists for t in values if isinstance(t, Tensor)]


class LARS(Optimizer):
    """SGD with steps in proportion to the norm of the parameter. classic: the momentum is of steps, not of gradients. pre_wd: the
    decay is of the gradient, not of the parameter. ns_steps: the momentum is made orthogonal, as Muon does. tcoef=0: SGD."""

    def __init__(self, params: list[Tensor], lr=0.001, momentum=0.9, weight_decay=1e-4, ns_steps=0, ns_coefficients=None,
                 nesterov=False, classic=True, pre_wd=True, tcoef=0.001, device=None, fused=False):
        super().__init__(params, lr, device, fused)
        who = type(self).__name__
        self.momentum, self.wd = _number(who, "momentum", momentum, 1), _number(who, "weight_decay", weight_decay)
        self.tcoef = _number(who, "tcoef", tcoef)
        if ns_steps and not ns_coefficients:
            raise ValueError(f"{who}: ns_steps is {ns_steps}, and there are no ns_coefficients")
        self.nesterov, self.classic, self.pre_wd = nesterov, classic, pre_wd
        self.ns_steps, self.ns_coefficients = ns_steps, ns_coefficients
        self.b: list[Tensor] = self._new_optim_param() if self.momentum else []

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
                updated.append(self.b[i].assign(self.momentum * self.b[i] + g))
                g = g + self.momentum * self.b[i] if self.nesterov else self.b[i]
            if self.ns_steps:
                g = g.reshape(g.shape[0], -1).newton_schulz(self.ns_steps, self.ns_coefficients).reshape(g.shape)
            if not self.classic:
                g = rate * g
            if not self.pre_wd and self.wd:
                g = g + self.lr * self.wd * p
            steps.append(g)
        return steps, updated


class SGD(LARS):
    """Gradient descent, with momentum."""

    def __init__(self, params: list[Tensor], lr=0.001, momentum=0.0, weight_decay=0.0, nesterov=False, classic=False, device=None,
                 fused=False):
        super().__init__(params, lr, momentum, weight_decay, nesterov=nesterov, classic=classic, tcoef=0, device=device, fused=fused)


class Muon(LARS):
    """SGD of matrices (axes behind the first are one), with the momentum made orthogonal."""

    def __init__(self, params: list[Tensor], lr=0.001, momentum=0.95, weight_decay=0.1, ns_steps=5,
                 ns_coefficients=(3.4445, -4.775, 2.0315), nesterov=True, device=None, fused=False):
        super().__init__(params, lr, momentum, weight_decay, ns_steps, ns_coefficients, nesterov, classic=False, pre_wd=False, tcoef=0,
                         device=device, fused=fused)
        for p in self.params:
            if p.ndim < 2:
                raise ShapeError(f"Muon: a parameter of {p.ndim} axes, expected 2 or more")


def _rest(power: Tensor, b: float) -> Tensor:
    """1 - b**t to all digits, of the power b**t as it was rounded: where that is near 1 its logarithm is almost a whole number t of
    those of b, and what it is too much of that, the difference is too."""
    if not 0.5 < b < 1:
        return 1 - power
    steps = power.log2() / math.log2(b)
    return (1 - power) * (power > 0.5).where(steps.round() / steps, 1.0)


class LAMB(Optimizer):
    """AdamW with steps in proportion to the norm of the parameter; adam=True: without that."""

    def __init__(self, params: list[Tensor], lr=0.001, b1=0.9, b2=0.999, eps=1e-6, weight_decay=0.0, adam=False, device=None, fused=False):
        super().__init__(params, lr, device, fused)
        who = type(self).__name__
        self.b1, self.b2 = _number(who, "b1", b1, 1), _number(who, "b2", b2, 1)
        self.eps, self.wd, self.adam = _number(who, "eps", eps), _number(who, "weight_decay", weight_decay), adam
        self.b1_t, self.b2_t = self._new_number(1), self._new_number(1)  # their powers, one for each step
        self.m, self.v = self._new_optim_param(), self._new_optim_param()

    def _step(self, params, grads):
        updated = [self.b1_t.assign(self.b1_t * self.b1), self.b2_t.assign(self.b2_t * self.b2)]
        m_rest, v_rest = _rest(self.b1_t, self.b1).contiguous(), _rest(self.b2_t, self.b2).contiguous()
        steps = []
        for p, g, m, v in zip((p.detach() for p in params), grads, self.m, self.v):
            updated += [m.assign(self.b1 * m + (1 - self.b1) * g), v.assign(self.b2 * v + (1 - self.b2) * g.square())]
            step = m / m_rest / ((v / v_rest).sqrt() + self.eps)
            if self.wd:
                step = step + self.wd * p
            if not self.adam:
                size, length = p.square().sum().sqrt(), step.square().sum().sqrt()
                step = step * ((size > 0) & (length > 0)).where(size / length, 1.0)
            steps.append(self.lr * step)
        return steps, updated


class AdamW(LAMB):
    """Adam with decay of the weights apart from the gradient."""

    def __init__(self, params: list[Tensor], lr=0.001, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01, device=None, fused=False):
        super().__init__(params, lr, b1, b2, eps, weight_decay, adam=True, device=device, fused=fused)


class Adam(LAMB):
    """Steps scaled by averages of the gradient and of its square."""

    def __init__(self, params: list[Tensor], lr=0.001, b1=0.9, b2=0.999, eps=1e-8, device=None, fused=False):
        super().__init__(params, lr, b1, b2, eps, adam=True, device=device, fused=fused)


class OptimizerGroup(Optimizer):
    """Several optimisers as one, each with parameters of its own."""

    def __init__(self, *optimizers: Optimizer):
        for part in optimizers:
            if not isinstance(part, Optimizer):
                raise TypeError(f"OptimizerGroup: expected optimizers, got {shown(part)}")
        if not optimizers:
            raise ValueError("OptimizerGroup: there are no optimizers")
        found = [p for part in optimizers for p in part.params]
        if len({hash(p) for p in found}) != len(found):
            raise ValueError("OptimizerGroup: two of its optimizers have the same parameter")
        self.optimizers, self.params = optimizers, found
        self.buffers = [b for part in optimizers for b in part.buffers]
        self.device = optimizers[0].device

    def __getitem__(self, i: int) -> Optimizer:
        return self.optimizers[i]

    def __len__(self) -> int:
        return len(self.optimizers)

    @property
    def lr(self) -> Tensor:
        """The learning rate of the first; set, that of all."""
        return self.optimizers[0].lr

    @lr.setter
    def lr(self, lr):
        for part in self.optimizers:
            part.lr = lr

    def schedule_step(self) -> list[Tensor]:
        """The tensors to realize, for step() later."""
        return [t for part in self.optimizers for t in part.schedule_step()]

    def state(self) -> list[Tensor]:
        """What they remember of earlier steps."""
        return [t for part in self.optimizers for t in part.state()]


__all__ = [
    "Adam", "AdamW", "LAMB", "LARS", "Muon", "Optimizer", "OptimizerGroup", "SGD", "clip_grad_norm", "clip_grad_value",
]
