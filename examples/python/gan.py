"""A generator and a discriminator that train each other: two optimisers, gradients that stop at detach()."""

import itertools

import numpy as np

from quern import Context, Tensor, TinyJit, dtypes, nn

NOISE, PICTURE, HIDDEN = 16, 64, 128


class Generator:
    def __init__(self):
        self.first, self.second, self.last = nn.Linear(NOISE, HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, PICTURE)

    def __call__(self, x):
        return self.last(self.second(self.first(x).leaky_relu(0.2)).leaky_relu(0.2)).tanh()


class Discriminator:
    def __init__(self):
        self.first, self.norm, self.last = nn.Linear(PICTURE, HIDDEN), nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, 2)

    def __call__(self, x):
        return self.last(self.norm(self.first(x)).leaky_relu(0.2)).log_softmax()


def pictures(count, rng):
    """What the generator is to learn: pictures of 8 x 8 with a bright square somewhere."""
    made = np.full((count, 8, 8), -1.0)
    for picture, (top, left) in zip(made, rng.integers(0, 5, (count, 2))):
        picture[top:top + 4, left:left + 4] = 1
    return made.reshape(count, PICTURE)


def load_weights(model, rng):
    """The same weights in each run."""
    for name, weight in nn.state.get_state_dict(model).items():
        if weight.ndim > 1:
            weight.assign(Tensor(rng.normal(0, weight.shape[1] ** -0.5, weight.shape), dtype=weight.dtype)).realize()
        elif name.endswith("bias"):
            weight.assign(Tensor.zeros(*weight.shape)).realize()


def is_real(said):
    return -said[:, 1].mean()


def is_made(said):
    return -said[:, 0].mean()


def steps(batch=64):
    """Trains on and on, and yields the losses of both in each step."""
    rng = np.random.default_rng(0)
    generator, discriminator = Generator(), Discriminator()
    load_weights(generator, rng)
    load_weights(discriminator, rng)
    make_better = nn.optim.Adam(nn.state.get_parameters(generator), lr=0.0002, b1=0.5)
    judge_better = nn.optim.Adam(nn.state.get_parameters(discriminator), lr=0.0002, b1=0.5)

    @TinyJit
    @Context(TRAINING=1)
    def train_discriminator(real, noise):
        judge_better.zero_grad()
        loss = is_real(discriminator(real)) + is_made(discriminator(generator(noise).detach()))
        loss.backward()
        return loss.realize(*judge_better.schedule_step())

    @TinyJit
    @Context(TRAINING=1)
    def train_generator(noise):
        make_better.zero_grad()
        judge_better.zero_grad()
        loss = is_real(discriminator(generator(noise)))
        loss.backward()
        return loss.realize(*make_better.schedule_step())

    while True:
        noise = Tensor(rng.normal(size=(batch, NOISE)), dtype=dtypes.default_float).realize()
        real = Tensor(pictures(batch, rng), dtype=dtypes.default_float).realize()
        yield [train_discriminator(real, noise).item(), train_generator(noise).item()]


if __name__ == "__main__":
    for i, (judging, making) in enumerate(itertools.islice(steps(), 200), 1):
        if i % 20 == 0:
            print(f"step {i:3}: loss of the discriminator {judging:.4f}, of the generator {making:.4f}")
