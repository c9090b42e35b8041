"""Data to try things on. digits() comes with the package; the others are downloaded once."""

import pathlib

from quern._core import Tensor
from quern.download import fetch


def digits(device=None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Handwritten digits of 8x8 pixels, from 0 to 1: images (1437, 1, 8, 8) and labels to train with, and 360 of each to test."""
    from quern.nn.state import npy_load

    rows = npy_load(pathlib.Path(__file__).parent.parent / "data" / "digits.npy").to("CPU").realize()
    rows = rows[_order(rows.shape[0])].realize()
    images = (rows[:, :64].float() / 16).reshape(-1, 1, 8, 8).to(device).realize()
    labels = rows[:, 64].cast("int32").to(device).realize()
    first = rows.shape[0] * 4 // 5
    return images[:first].contiguous(), labels[:first].contiguous(), images[first:].contiguous(), labels[first:].contiguous()


def _order(n):
    """The numbers below n mixed, always in the same way: neighbours in the file are of one writer."""
    import random

    order = list(range(n))
    random.Random(1).shuffle(order)
    return order


def mnist(device=None, fashion=False) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images (60000, 1, 28, 28) of uint8 and labels to train with, and 10000 to test. Downloaded."""
    base = "https://storage.googleapis.com/cvdf-datasets/mnist/"
    if fashion:
        base = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"

    def load(name, header, *shape):
        return Tensor(fetch(base + name, gunzip=True)).to("CPU")[header:].reshape(*shape).to(device)

    return (
        load("train-images-idx3-ubyte.gz", 16, -1, 1, 28, 28), load("train-labels-idx1-ubyte.gz", 8, -1),
        load("t10k-images-idx3-ubyte.gz", 16, -1, 1, 28, 28), load("t10k-labels-idx1-ubyte.gz", 8, -1),
    )


def cifar(device=None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images (50000, 3, 32, 32) of uint8 and labels to train with, and 10000 to test. Downloaded."""
    import tarfile

    with tarfile.open(fetch("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz")) as archive:

        def load(*names):
            parts = [archive.extractfile(f"cifar-10-batches-bin/{name}.bin").read() for name in names]
            rows = Tensor(b"".join(parts), dtype="uint8", device="CPU").reshape(-1, 3073)
            return rows[:, 1:].reshape(-1, 3, 32, 32).to(device), rows[:, 0].to(device)

        train, test = load(*(f"data_batch_{i}" for i in range(1, 6))), load("test_batch")
    return *train, *test


__all__ = ["cifar", "digits", "mnist"]
