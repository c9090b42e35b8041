"""Tokens one by one from a transformer that keeps what it computed for earlier ones: one jit for every length.

The place in the text is a Variable, and shapes that depend on it are symbolic: the kernels are compiled once."""

import itertools
import time

import numpy as np

from quern import Tensor, TinyJit, Variable, nn

TOKENS, DIM, HEADS, LAYERS, LONGEST = 512, 128, 4, 2, 128


class Attention:
    def __init__(self):
        self.inputs, self.out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.cache = Tensor.zeros(2, 1, HEADS, LONGEST, DIM // HEADS).contiguous().realize()

    def __call__(self, x, place):
        length = x.shape[1]
        query, key, value = (part.reshape(1, length, HEADS, DIM // HEADS).transpose(1, 2) for part in self.inputs(x).chunk(3, dim=-1))
        self.cache[:, :, :, place:place + length, :].assign(Tensor.stack(key, value)).realize()
        keys, values = self.cache[0, :, :, 0:place + length, :], self.cache[1, :, :, 0:place + length, :]
        return self.out(query.scaled_dot_product_attention(keys, values).transpose(1, 2).reshape(1, length, DIM))


class Block:
    def __init__(self):
        self.attention_norm, self.attention, self.norm = nn.RMSNorm(DIM), Attention(), nn.RMSNorm(DIM)
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((DIM, 256), (DIM, 256), (256, DIM)))

    def __call__(self, x, place):
        x = x + self.attention(self.attention_norm(x), place)
        y = self.norm(x)
        return x + self.down(self.gate(y).silu() * self.up(y))


class Model:
    def __init__(self):
        self.tokens, self.places = nn.Embedding(TOKENS, DIM), nn.Embedding(LONGEST, DIM)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm, self.out = nn.RMSNorm(DIM), nn.Linear(DIM, TOKENS, bias=False)

    def __call__(self, token, place):
        x = self.tokens(token) + self.places.weight[place:place + 1].reshape(1, 1, DIM)
        for block in self.blocks:
            x = block(x, place)
        outputs = self.out(self.norm(x))[:, -1]
        return outputs.argmax(-1, keepdim=True).realize(), outputs.max().realize()


def load_weights(model, rng):
    """The same weights in each run."""
    for name, weight in nn.state.get_state_dict(model).items():
        if weight.ndim == 2:
            weight.assign(Tensor(rng.normal(0, 0.2, weight.shape), dtype=weight.dtype)).realize()


def steps():
    """Yields, for each token, which it is and how sure the model was."""
    model = Model()
    load_weights(model, np.random.default_rng(0))
    decode = TinyJit(model.__call__)
    place, token = Variable("place", 1, LONGEST - 1), Tensor([[1]])
    for i in range(1, LONGEST):
        token, output = decode(token.clone().realize(), place.bind(i))
        yield [token.item(), output.item()]


if __name__ == "__main__":
    begin = time.perf_counter()
    for token, output in itertools.islice(steps(), 40):
        print(f"{1000 * (time.perf_counter() - begin):8.2f} ms: token {token:3}, {output:.4f}")
        begin = time.perf_counter()
