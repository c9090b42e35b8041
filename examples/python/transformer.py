"""A small transformer that learns a text letter by letter: attention, embeddings, AdamW."""

import itertools

import numpy as np

from quern import Context, Tensor, TinyJit, nn

TEXT = """A mill has two stones. The lower one lies still, and the upper one turns above it. Between them the grain is
opened, and what was hard becomes flour. The miller listens to the stones: when they run empty they ring, and when they
are too near they smell of fire. He has cut furrows into both, from the middle to the rim, so that the flour finds its
way out. A small mill that is turned by hand is called a quern. People had one in each house, long before there was a
wheel in the river, and turned it every morning for the bread of the day.
"""
LETTERS = sorted(set(TEXT))
DIM, HEADS, LAYERS, LENGTH = 64, 4, 2, 32


class Block:
    def __init__(self):
        self.attention_norm, self.norm = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.query, self.key, self.value, self.out = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def attend(self, x):
        heads = [layer(x).reshape(*x.shape[:2], HEADS, DIM // HEADS).transpose(1, 2) for layer in (self.query, self.key, self.value)]
        return self.out(Tensor.scaled_dot_product_attention(*heads, is_causal=True).transpose(1, 2).reshape(*x.shape))

    def __call__(self, x):
        x = x + self.attend(self.attention_norm(x))
        return x + self.down(self.up(self.norm(x)).gelu())


class Model:
    def __init__(self):
        self.letters, self.places = nn.Embedding(len(LETTERS), DIM), nn.Embedding(LENGTH, DIM)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm, self.out = nn.LayerNorm(DIM), nn.Linear(DIM, len(LETTERS), bias=False)

    def __call__(self, tokens):
        x = self.letters(tokens) + self.places(Tensor.arange(tokens.shape[1]).reshape(1, -1))
        return self.out(self.norm(x.sequential(self.blocks)))


def load_weights(model, rng):
    """The same weights in each run."""
    for name, weight in nn.state.get_state_dict(model).items():
        if weight.ndim > 1:
            weight.assign(Tensor(rng.normal(0, 0.08, weight.shape), dtype=weight.dtype)).realize()
        elif name.endswith("bias"):
            weight.assign(Tensor.zeros(*weight.shape)).realize()


def training(model, rng, batch=16):
    """Trains on and on, and yields the loss of each step."""
    optimiser = nn.optim.AdamW(nn.state.get_parameters(model), lr=0.003, weight_decay=0.01)
    text = np.array([LETTERS.index(letter) for letter in TEXT], np.int32)

    @TinyJit
    @Context(TRAINING=1)
    def train(tokens):
        optimiser.zero_grad()
        loss = model(tokens[:, :-1]).sparse_categorical_crossentropy(tokens[:, 1:]).backward()
        return loss.realize(*optimiser.schedule_step())

    while True:
        begins = rng.integers(0, len(text) - LENGTH, batch)
        yield train(Tensor(np.stack([text[at:at + LENGTH + 1] for at in begins])).realize()).item()


def steps():
    rng = np.random.default_rng(0)
    model = Model()
    load_weights(model, rng)
    for loss in training(model, rng):
        yield [loss]


def write(model, begin, count):
    """Text that goes on as the model thinks it should."""
    next_letter = TinyJit(lambda tokens: model(tokens)[0, -1].argmax().realize())
    text = begin
    for _ in range(count):
        tokens = [LETTERS.index(letter) for letter in text[-LENGTH:]]
        text += LETTERS[next_letter(Tensor([tokens]).realize()).item()]
    return text


if __name__ == "__main__":
    generator, model = np.random.default_rng(0), Model()
    load_weights(model, generator)
    for i, loss in enumerate(itertools.islice(training(model, generator), 300), 1):
        if i % 25 == 0:
            print(f"step {i:3}: loss {loss:.4f}")
    print(write(model, TEXT[:LENGTH], 200))
