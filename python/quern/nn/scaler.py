"""Losses in narrow floats, scaled so that small gradients are not lost."""

from quern._core import ValueError, shown  # noqa: A004
from quern.nn.optim import Optimizer


class GradScaler:
    """scaler.scale(loss).backward(); scaler.step(optimiser); scaler.update(). Gradients are divided by the scale again. A step in
    which one of them is not finite is left out, and the scale becomes smaller; after growth_interval good steps it grows."""

    def __init__(self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000,
                 enabled: bool = True):
        if not init_scale > 0 or not growth_factor > 1 or not 0 < backoff_factor < 1 or growth_interval < 1:
            raise ValueError(f"GradScaler: init_scale is {init_scale}, growth_factor {growth_factor}, backoff_factor {backoff_factor}, "
                             f"growth_interval {growth_interval}; expected more than 0, more than 1, between 0 and 1, and 1 or more")
        self._scale, self._growth, self._backoff, self._interval = float(init_scale), growth_factor, backoff_factor, growth_interval
        self._enabled, self._good_steps, self._unscaled = enabled, 0, {}

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self._enabled

    def get_scale(self) -> float:
        """The scale now; 1 if it is not enabled."""
        return self._scale if self._enabled else 1.0

    def scale(self, outputs):
        """A loss, or a list of such, times the scale."""
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(part) for part in outputs)
        return outputs * self._scale if self._enabled else outputs

    def unscale_(self, optimizer: Optimizer):
        """Divides the gradients of an optimiser by the scale, to clip them before step(). Runs."""
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"GradScaler: expected an optimizer, got {shown(optimizer)}")
        if not self._enabled:
            return
        if id(optimizer) in self._unscaled:
            raise RuntimeError("GradScaler: unscale_() was called for this optimizer since the last update()")
        gradients = [p.grad for p in optimizer.params if p.grad is not None]
        if not gradients:
            raise ValueError("GradScaler: no parameter of the optimizer has a gradient")
        for p in optimizer.params:
            if p.grad is not None:
                p.grad = (p.grad.float() if p.grad.dtype.itemsize < 4 else p.grad) / self._scale
        first, *others = [p.grad.isfinite().all() for p in optimizer.params if p.grad is not None]
        good = first
        for other in others:
            good = good & other.to(first.device)
        self._unscaled[id(optimizer)] = bool(good.item())

    def step(self, optimizer: Optimizer) -> bool:
        """A step of the optimiser, unless gradients had overflowed. Returns whether it was taken."""
        if self._enabled and id(optimizer) not in self._unscaled:
            self.unscale_(optimizer)
        good = not self._enabled or self._unscaled[id(optimizer)]
        if good:
            optimizer.step()
        return good

    def update(self, new_scale: float | None = None):
        """Sets the scale for the next step."""
        good = all(self._unscaled.values())
        self._unscaled.clear()
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not good:
            self._scale, self._good_steps = self._scale * self._backoff, 0
        else:
            self._good_steps += 1
            if self._good_steps >= self._interval:
                self._scale, self._good_steps = self._scale * self._growth, 0

    def state_dict(self) -> dict:
        """Its numbers, to go on later."""
        return {"scale": self._scale, "growth_factor": self._growth, "backoff_factor": self._backoff, "growth_interval": self._interval,
                "_growth_tracker": self._good_steps}

    def load_state_dict(self, state_dict: dict):
        """Goes on from what state_dict() gave."""
        if not isinstance(state_dict, dict):
            raise TypeError(f"load_state_dict: the state is {shown(state_dict)}, expected a dict")
        self._scale, self._growth, self._backoff = (state_dict[k] for k in ("scale", "growth_factor", "backoff_factor"))
        self._interval, self._good_steps = state_dict["growth_interval"], state_dict["_growth_tracker"]


__all__ = ["GradScaler"]
