"""Training a convolutional network on pictures of digits: layers, an optimiser, a jit.

The pictures are made of the glyphs below, moved about and with noise, so that nothing needs to be downloaded."""

import itertools

import numpy as np

from quern import Context, Tensor, TinyJit, dtypes, nn

GLYPHS = """
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ..##. .#.#. ####. ####. ...#. .###. .####
##..# ..#.. .##.. ....# ##### ....# #...# ..#.. #...# ....#
.###. .###. ##### .###. ...#. ####. .###. ..#.. .###. .###.
"""


def pictures(count, rng):
    """Pictures of 28 x 28 and what digit they show."""
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    glyphs = [np.array([[c == "#" for c in row[digit]] for row in rows]).repeat(4, 0).repeat(4, 1) for digit in range(10)]
    labels = rng.integers(0, 10, count).astype(np.int32)
    images = rng.normal(0, 0.3, (count, 1, 28, 28))
    for image, label, (top, left) in zip(images, labels, rng.integers(0, 9, (count, 2))):
        image[0, top:top + 20, left:left + 20] += glyphs[label]
    return images, labels


def tensors(images, labels):
    return Tensor(images, dtype=dtypes.default_float).realize(), Tensor(labels).realize()


class Model:
    def __init__(self):
        self.layers = [
            nn.Conv2d(1, 32, 5), Tensor.silu, nn.Conv2d(32, 32, 5), Tensor.silu, nn.BatchNorm(32), Tensor.max_pool2d,
            nn.Conv2d(32, 64, 3), Tensor.silu, nn.Conv2d(64, 64, 3), Tensor.silu, nn.BatchNorm(64), Tensor.max_pool2d,
            lambda x: x.flatten(1), nn.Linear(576, 10),
        ]

    def __call__(self, x):
        return x.sequential(self.layers)


def load_weights(model, rng):
    """The same weights in each run."""
    for name, weight in nn.state.get_state_dict(model).items():
        if weight.ndim > 1:
            bound = 1 / np.sqrt(np.prod(weight.shape[1:]))
            weight.assign(Tensor(rng.uniform(-bound, bound, weight.shape), dtype=weight.dtype)).realize()
        elif name.endswith("bias"):
            weight.assign(Tensor.zeros(*weight.shape)).realize()


def steps(batch=64):
    """Trains on and on, and yields the loss of each step; each tenth time that of the test pictures, too."""
    rng = np.random.default_rng(0)
    images, labels = tensors(*pictures(2048, rng))
    test_images, test_labels = tensors(*pictures(256, rng))
    model = Model()
    load_weights(model, rng)
    optimiser = nn.optim.SGD(nn.state.get_parameters(model), lr=0.003, momentum=0.9)

    @TinyJit
    @Context(TRAINING=1)
    def train(samples):
        optimiser.zero_grad()
        loss = model(images[samples]).sparse_categorical_crossentropy(labels[samples]).backward()
        return loss.realize(*optimiser.schedule_step())

    @TinyJit
    def test():
        return model(test_images).sparse_categorical_crossentropy(test_labels).realize()

    for i in itertools.count(1):
        losses = [train(Tensor(rng.integers(0, images.shape[0], batch).astype(np.int32)).realize()).item()]
        if i % 10 == 0:
            losses.append(test().item())
        yield losses


if __name__ == "__main__":
    for i, losses in enumerate(itertools.islice(steps(), 50), 1):
        print(f"step {i:3}: loss {losses[0]:.4f}" + (f", of the test {losses[1]:.4f}" if len(losses) > 1 else ""))
