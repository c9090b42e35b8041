"""Learning rates that change over time: scheduler = StepLR(optimiser, 10); optimiser.step(); scheduler.step(). Names, arguments and rates
are those of torch.optim.lr_scheduler. Rates are written into the memory of the optimiser, so that jits see them."""

import math

from quern._core import ValueError, shown  # noqa: A004
from quern.nn.optim import Optimizer, OptimizerGroup


class LRScheduler:
    """What schedulers have in common. One of your own has a method get_lr(base_lr), for the step number last_epoch, from 0."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__}: expected an optimizer, got {shown(optimizer)}")
        self.optimizer, self.last_epoch = optimizer, last_epoch
        parts = optimizer.optimizers if isinstance(optimizer, OptimizerGroup) else (optimizer,)
        self._parts = parts
        # the first scheduler of several sees the rate that the optimiser was made with: the others begin from there, too
        self.base_lrs = [part.__dict__.setdefault("initial_lr", float(part.lr.item())) for part in parts]
        self.step()

    def get_lr(self, base_lr: float) -> float:
        """The rate of this step, from that which the optimiser began with."""
        raise NotImplementedError("a scheduler needs a method get_lr(base_lr)")

    def step(self, epoch: int | None = None):
        """On to the next rate, or to that of a number."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set([self.get_lr(base) for base in self.base_lrs])

    def _set(self, rates):
        self._last = rates
        for part, rate in zip(self._parts, rates):
            part.lr = rate

    def get_last_lr(self) -> list[float]:
        """The rates in force, one for each optimiser of a group."""
        return list(self._last)

    def state_dict(self) -> dict:
        """Its numbers, to go on later."""
        return {name: value for name, value in vars(self).items() if name not in ("optimizer", "_parts") and not callable(value)}

    def load_state_dict(self, state_dict: dict):
        """Goes on from what state_dict() gave."""
        if not isinstance(state_dict, dict):
            raise TypeError(f"load_state_dict: the state is {shown(state_dict)}, expected a dict")
        vars(self).update(state_dict)
        self._set(self._last)


def _positive(who, name, value):
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{who}: {name} is {shown(value)}, expected an int of 1 or more")
    return value


class LambdaLR(LRScheduler):
    """The rate times a function of the number of the step."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        if not callable(lr_lambda):
            raise TypeError(f"LambdaLR: expected a function, got {shown(lr_lambda)}")
        self.lr_lambda = lr_lambda
        super().__init__(optimizer, last_epoch)

    def get_lr(self, base_lr):
        """The rate of this step."""
        return base_lr * self.lr_lambda(self.last_epoch)


class StepLR(LRScheduler):
    """Times gamma after each step_size steps."""

    def __init__(self, optimizer, step_size: int, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = _positive("StepLR", "step_size", step_size), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self, base_lr):
        """The rate of this step."""
        return base_lr * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """Times gamma at each of the milestones."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self, base_lr):
        """The rate of this step."""
        return base_lr * self.gamma ** sum(self.last_epoch >= m for m in self.milestones)


class ConstantLR(LRScheduler):
    """Times a factor for the first steps."""

    def __init__(self, optimizer, factor=1 / 3, total_iters=5, last_epoch=-1):
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self, base_lr):
        """The rate of this step."""
        return base_lr * (self.factor if self.last_epoch < self.total_iters else 1)


class LinearLR(LRScheduler):
    """In a line from one factor to another, over the first steps."""

    def __init__(self, optimizer, start_factor=1 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, _positive("LinearLR", "total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def get_lr(self, base_lr):
        """The rate of this step."""
        part = min(self.last_epoch, self.total_iters) / self.total_iters
        return base_lr * (self.start_factor + (self.end_factor - self.start_factor) * part)


class ExponentialLR(LRScheduler):
    """Times gamma in each step."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self, base_lr):
        """The rate of this step."""
        return base_lr * self.gamma**self.last_epoch


class CosineAnnealingLR(LRScheduler):
    """Half a cosine down to eta_min in T_max steps, and up again."""

    def __init__(self, optimizer, T_max: int, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = _positive("CosineAnnealingLR", "T_max", T_max), eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self, base_lr):
        """The rate of this step."""
        return self.eta_min + (base_lr - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to eta_min in T_0 steps, then again in T_mult times as many, and so on."""

    def __init__(self, optimizer, T_0: int, T_mult: int = 1, eta_min=0.0, last_epoch=-1):
        self.T_0, self.T_mult = _positive("CosineAnnealingWarmRestarts", "T_0", T_0), _positive("CosineAnnealingWarmRestarts", "T_mult", T_mult)
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self, base_lr):
        """The rate of this step."""
        at, length = self.last_epoch, self.T_0
        if self.T_mult == 1:
            at %= length
        while at >= length:
            at -= length
            length *= self.T_mult
        return self.eta_min + (base_lr - self.eta_min) * (1 + math.cos(math.pi * at / length)) / 2


class OneCycleLR(LRScheduler):
    """Up to max_lr and down again, both by half a cosine: the rate begins at max_lr / div_factor, and ends at that by
    final_div_factor. The rate that the optimiser began with does not count."""

    def __init__(self, optimizer, max_lr: float, total_steps: int, pct_start=0.3, anneal_strategy="cos", div_factor=25.0,
                 final_div_factor=1e4, last_epoch=-1):
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy is {anneal_strategy!r}, expected 'cos' or 'linear'")
        self.max_lr, self.total_steps = max_lr, _positive("OneCycleLR", "total_steps", total_steps)
        self.pct_start, self.anneal_strategy, self.div_factor, self.final_div_factor = pct_start, anneal_strategy, div_factor, final_div_factor
        super().__init__(optimizer, last_epoch)

    def get_lr(self, base_lr):
        """The rate of this step."""
        if self.last_epoch >= self.total_steps:
            raise ValueError(f"OneCycleLR: step {self.last_epoch + 1} of {self.total_steps}")
        first, up, last = self.max_lr / self.div_factor, self.pct_start * self.total_steps - 1, self.total_steps - 1
        if self.last_epoch <= up:
            begin, end, part = first, self.max_lr, self.last_epoch / up
        else:
            begin, end, part = self.max_lr, first / self.final_div_factor, (self.last_epoch - up) / (last - up)
        done = (1 - math.cos(math.pi * part)) / 2 if self.anneal_strategy == "cos" else part
        return begin + (end - begin) * done


class ReduceLROnPlateau(LRScheduler):
    """Times a factor when a number, which is given to step(), has not become better for `patience` steps."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0, min_lr=0.0,
                 eps=1e-8):
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: mode is {mode!r} and threshold_mode {threshold_mode!r}, expected 'min' or 'max', and "
                             "'rel' or 'abs'")
        if not 0 < factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor is {factor}, expected one between 0 and 1")
        self.mode, self.factor, self.patience, self.threshold, self.threshold_mode = mode, factor, patience, threshold, threshold_mode
        self.cooldown, self.min_lr, self.eps = cooldown, min_lr, eps
        self.best, self.num_bad_epochs, self.cooldown_counter = math.inf if mode == "min" else -math.inf, 0, 0
        super().__init__(optimizer)

    def _is_better(self, value: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel" and math.isfinite(self.best):
            return value * sign > self.best * sign + self.threshold * abs(self.best)
        return value * sign > self.best * sign + (self.threshold if self.threshold_mode == "abs" else 0)

    def step(self, metrics=None, epoch=None):
        """Looks at the number: a loss, or another."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.last_epoch == 0 and metrics is None:  # when it is made
            self._last = [float(part.lr.item()) for part in self._parts]
            return
        if metrics is None:
            raise TypeError("ReduceLROnPlateau: step() needs the number that is to become better")
        value = float(metrics.item() if hasattr(metrics, "item") else metrics)
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            rates = [max(rate * self.factor, self.min_lr) for rate in self._last]
            self._set([new if old - new > self.eps else old for old, new in zip(self._last, rates)])
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0


class SequentialLR(LRScheduler):
    """One scheduler after the other: each begins at a milestone, with its step 0."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        self._schedulers, self.milestones = list(schedulers), list(milestones)
        if len(self._schedulers) != len(self.milestones) + 1:
            raise ValueError(f"SequentialLR: {len(self._schedulers)} schedulers need {len(self._schedulers) - 1} milestones, "
                             f"got {len(self.milestones)}")
        super().__init__(optimizer, last_epoch)

    def step(self, epoch=None):
        """On to the next rate."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        at = sum(self.last_epoch >= m for m in self.milestones)
        self._schedulers[at].step(self.last_epoch - (self.milestones[at - 1] if at else 0))
        self._last = self._schedulers[at].get_last_lr()


__all__ = [name for name, value in list(globals().items()) if isinstance(value, type) and issubclass(value, LRScheduler)]
