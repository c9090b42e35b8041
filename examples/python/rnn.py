"""An LSTM that learns to go on with a wave: one cell in a loop over time, SGD with momentum."""

import itertools

import numpy as np

from quern import Context, Tensor, TinyJit, dtypes, nn

HIDDEN, LENGTH = 32, 16


class Model:
    def __init__(self):
        self.cell, self.out = nn.LSTMCell(1, HIDDEN), nn.Linear(HIDDEN, 1)

    def __call__(self, x):
        """x: (batch, time, 1); what it expects to come next at each time."""
        state, said = None, []
        for time in range(x.shape[1]):
            state = self.cell(x[:, time], state)
            said.append(self.out(state[0]))
        return Tensor.stack(*said, dim=1)


def waves(count, rng):
    """Sums of two sines."""
    time = np.arange(LENGTH + 1)[None, :, None]
    speed, begin = rng.uniform(0.2, 0.8, (2, count, 1, 1)), rng.uniform(0, 2 * np.pi, (2, count, 1, 1))
    return np.sin(speed * time + begin).sum(0) / 2


def load_weights(model, rng):
    """The same weights in each run."""
    for weight in nn.state.get_parameters(model):
        weight.assign(Tensor(rng.uniform(-0.2, 0.2, weight.shape), dtype=weight.dtype)).realize()


def steps(batch=32):
    """Trains on and on, and yields the loss of each step."""
    rng = np.random.default_rng(0)
    model = Model()
    load_weights(model, rng)
    optimiser = nn.optim.SGD(nn.state.get_parameters(model), lr=0.1, momentum=0.9)

    @TinyJit
    @Context(TRAINING=1)
    def train(x):
        optimiser.zero_grad()
        loss = (model(x[:, :-1]) - x[:, 1:]).square().mean().backward()
        return loss.realize(*optimiser.schedule_step())

    while True:
        yield [train(Tensor(waves(batch, rng), dtype=dtypes.default_float).realize()).item()]


if __name__ == "__main__":
    for i, (loss,) in enumerate(itertools.islice(steps(), 200), 1):
        if i % 20 == 0:
            print(f"step {i:3}: loss {loss:.5f}")
