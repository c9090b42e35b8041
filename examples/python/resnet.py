"""ResNet-18 on pictures of 224 x 224: inference in a jit. The weights are random: real ones come from
nn.state.safe_load and nn.state.load_state_dict, and the names of the layers are those of torchvision."""

import itertools
import time

import numpy as np

from quern import Tensor, TinyJit, dtypes, nn


class BasicBlock:
    def __init__(self, channels_in, channels, stride):
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = []
        if stride != 1 or channels_in != channels:
            self.downsample = [nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False), nn.BatchNorm2d(channels)]

    def __call__(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (y + x.sequential(self.downsample)).relu()


class ResNet18:
    def __init__(self, classes=1000):
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64)
        self.layer1 = [BasicBlock(64, 64, 1), BasicBlock(64, 64, 1)]
        self.layer2 = [BasicBlock(64, 128, 2), BasicBlock(128, 128, 1)]
        self.layer3 = [BasicBlock(128, 256, 2), BasicBlock(256, 256, 1)]
        self.layer4 = [BasicBlock(256, 512, 2), BasicBlock(512, 512, 1)]
        self.fc = nn.Linear(512, classes)

    def __call__(self, x):
        x = self.bn1(self.conv1(x)).relu().max_pool2d(kernel_size=(3, 3), stride=2, padding=1)
        x = x.sequential(self.layer1 + self.layer2 + self.layer3 + self.layer4)
        return self.fc(x.mean((2, 3)))


def random_weights(model, rng):
    """The same weights in each run, by name."""
    made = {}
    for name, weight in nn.state.get_state_dict(model).items():
        if weight.ndim > 1:
            values = rng.normal(0, np.sqrt(2 / np.prod(weight.shape[1:])), weight.shape)
        elif name.endswith("running_var"):
            values = rng.uniform(0.5, 1.5, weight.shape)
        elif name.endswith("num_batches_tracked"):
            values = np.array(1000)
        else:
            values = rng.normal(1 if "bn" in name and name.endswith("weight") else 0, 0.1, weight.shape)
        made[name] = Tensor(values, dtype=weight.dtype)
    return made


def steps(size=224):
    """Looks at one picture after the other, and yields eight of the outputs for each."""
    rng = np.random.default_rng(0)
    model = ResNet18()
    nn.state.load_state_dict(model, random_weights(model, rng), verbose=False)
    run = TinyJit(lambda x: model(x).realize())
    while True:
        yield run(Tensor(rng.normal(size=(1, 3, size, size)), dtype=dtypes.default_float).realize())[0, :8].tolist()


if __name__ == "__main__":
    begin = time.perf_counter()
    for outputs in itertools.islice(steps(), 10):
        print(f"{1000 * (time.perf_counter() - begin):8.1f} ms:", " ".join(f"{x:8.4f}" for x in outputs))
        begin = time.perf_counter()
