"""RNN, GRU and LSTM over sequences. Names and shapes of weights are those of PyTorch: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
and the same with _reverse for the second direction."""

from quern._core import ShapeError, Tensor, ValueError, shown  # noqa: A004
from quern.nn import given
from quern.nn.describe import Layer
from quern.nn.layers import _uniform


class _Recurrent(Layer):
    _gates = 1

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False):
        who = type(self).__name__
        self.input_size = given.size(who, "input_size", input_size, 1)
        self.hidden_size = given.size(who, "hidden_size", hidden_size, 1)
        self.num_layers = given.size(who, "num_layers", num_layers, 1)
        if not 0 <= dropout <= 1:
            raise ValueError(f"{who}: dropout is {dropout!r}, expected 0 to 1")
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * self._directions
            for direction in range(self._directions):
                for name, shape in (("weight_ih", (inputs,)), ("weight_hh", (hidden_size,)), ("bias_ih", ()), ("bias_hh", ())):
                    if bias or not name.startswith("bias"):
                        setattr(self, self._name(name, layer, direction), _uniform(hidden_size, self._gates * hidden_size, *shape))

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @staticmethod
    def _name(name: str, layer: int, direction: int) -> str:
        return f"{name}_l{layer}{'_reverse' if direction else ''}"

    def options(self) -> str:
        """What it was made with."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (("num_layers", 1), ("batch_first", False), ("dropout", 0.0), ("bidirectional", False)):
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def _weight(self, name, layer, direction):
        return getattr(self, self._name(name, layer, direction), None)

    # The inputs' part of the gates, of all steps at once; then a step after the other.
    def _run(self, x: Tensor, state: list[Tensor], layer: int, direction: int):
        w_hh, b_hh = self._weight("weight_hh", layer, direction).transpose(), self._weight("bias_hh", layer, direction)
        steps = x.linear(self._weight("weight_ih", layer, direction).transpose(), self._weight("bias_ih", layer, direction)).contiguous()
        outputs = []
        length = x.shape[0]
        for i in range(length):
            place = length - 1 - i if direction else i
            state = self._step(steps[place], state, w_hh, b_hh)
            outputs.append(state[0])
        return Tensor.stack(*(reversed(outputs) if direction else outputs)), state

    def _step(self, inputs: Tensor, state: list[Tensor], w_hh: Tensor, b_hh: Tensor | None) -> list[Tensor]:
        raise NotImplementedError

    def _states(self, x: Tensor, hx, count: int) -> list[Tensor]:
        who, shape = type(self).__name__, (self.num_layers * self._directions, x.shape[1], self.hidden_size)
        if hx is None:
            return [Tensor.zeros(*shape, dtype=x.dtype, device=x.device)] * count
        states = [hx] if count == 1 else list(hx) if isinstance(hx, (tuple, list)) else [hx]
        if len(states) != count or not all(isinstance(s, Tensor) for s in states):
            raise TypeError(f"{who}: expected {'a tensor' if count == 1 else 'two tensors'} as the state, got {shown(hx)}")
        return states

    def _checked(self, state: Tensor, batch) -> Tensor:
        shape = (self.num_layers * self._directions, batch, self.hidden_size)
        if state.shape != shape:
            raise ShapeError(f"{type(self).__name__}: the state has shape {state.shape}, expected {shape}")
        return state

    def _sequence(self, x: Tensor, hx, count: int):
        who = type(self).__name__
        given.axis(self, x, -1, self.input_size)
        if x.ndim not in (2, 3):
            raise ShapeError(f"{who}: the input has shape {x.shape}, expected (steps, {self.input_size}) or a batch of such")
        is_batch = x.ndim == 3
        if not is_batch:
            x = x.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        if not isinstance(x.shape[0], int) or x.shape[0] == 0:
            raise ShapeError(f"{who}: {x.shape[0]} steps, expected a number of 1 or more")
        states = self._states(x, hx, count)
        if not is_batch and hx is not None:
            states = [s.unsqueeze(1) if s.ndim == 2 else s for s in states]
        states = [self._checked(s, x.shape[1]) for s in states]
        last: list[list[Tensor]] = [[] for _ in range(count)]
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self._directions):
                place = layer * self._directions + direction
                output, end = self._run(x, [s[place] for s in states], layer, direction)
                outputs.append(output)
                for kept, state in zip(last, end):
                    kept.append(state)
            x = outputs[0].cat(*outputs[1:], dim=-1) if len(outputs) > 1 else outputs[0]
            if self.dropout and layer + 1 < self.num_layers:
                x = x.dropout(self.dropout)
        ends = [Tensor.stack(*kept) for kept in last]
        if not is_batch:
            return x.squeeze(1), [e.squeeze(1) for e in ends]
        return x.transpose(0, 1) if self.batch_first else x, ends


class RNN(_Recurrent):
    """h = tanh(W x + U h), or relu. Takes (steps, batch, input_size), or with batch_first (batch, steps, input_size), and the state
    (layers * directions, batch, hidden_size); returns the outputs of the last layer, and the state after the last step."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity is {nonlinearity!r}, expected 'tanh' or 'relu'")
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def _step(self, inputs, state, w_hh, b_hh):
        total = inputs + state[0].linear(w_hh, b_hh)
        return [(total.tanh() if self.nonlinearity == "tanh" else total.relu()).contiguous()]

    def __call__(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, (h,) = self._sequence(x, hx, 1)
        return outputs, h


class GRU(_Recurrent):
    """Gates in the order reset, update, new. Takes and returns what RNN does."""

    _gates = 3

    def _step(self, inputs, state, w_hh, b_hh):
        (h,) = state
        r, z, n = inputs.chunk(3, dim=-1)
        r_h, z_h, n_h = h.linear(w_hh, b_hh).contiguous().chunk(3, dim=-1)
        update = (z + z_h).sigmoid()
        new = (n + (r + r_h).sigmoid() * n_h).tanh()
        return [((1 - update) * new + update * h).contiguous()]

    def __call__(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        outputs, (h,) = self._sequence(x, hx, 1)
        return outputs, h


class LSTM(_Recurrent):
    """Gates in the order input, forget, cell, output. Takes what RNN does, with the state (h, c), and returns outputs, (h, c)."""

    _gates = 4

    def _step(self, inputs, state, w_hh, b_hh):
        h, c = state
        i, f, g, o = (inputs + h.linear(w_hh, b_hh)).contiguous().chunk(4, dim=-1)
        cell = (f.sigmoid() * c + i.sigmoid() * g.tanh()).contiguous()
        return [(o.sigmoid() * cell.tanh()).contiguous(), cell]

    def __call__(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, (h, c) = self._sequence(x, hx, 2)
        return outputs, (h, c)


__all__ = ["GRU", "LSTM", "RNN"]
