"""The train suite's work by tinygrad's jit on its CPU device."""

import os

os.environ.setdefault("DEV", "CPU")
os.environ.setdefault("CC", "clang-19")  # what ./dev setup installs
os.environ["CACHELEVEL"] = "0"

import train_work  # noqa: E402
from tinygrad import Context, GlobalCounters, Tensor, TinyJit, nn  # noqa: E402


class Net:
    def __init__(self):
        self.first, self.second = nn.Conv2d(1, 32, 5), nn.Conv2d(32, 32, 5)
        self.norm = nn.BatchNorm(32)
        self.third, self.fourth = nn.Conv2d(32, 64, 3), nn.Conv2d(64, 64, 3)
        self.last_norm = nn.BatchNorm(64)
        self.out = nn.Linear(576, 10)

    def __call__(self, x):
        y = self.norm(self.second(self.first(x).relu()).relu()).max_pool2d()
        y = self.last_norm(self.fourth(self.third(y).relu()).relu()).max_pool2d()
        return self.out(y.flatten(1))


def make():
    net = Net()
    optimiser = nn.optim.Adam(nn.state.get_parameters(net))
    x, y = Tensor(train_work.IMAGES).realize(), Tensor(train_work.DIGITS).realize()

    @TinyJit
    @Context(TRAINING=1)
    def step(x, y):
        optimiser.zero_grad()
        loss = net(x).sparse_categorical_crossentropy(y).backward()
        return loss.realize(*optimiser.schedule_step())

    def run():
        GlobalCounters.reset()
        step(x, y).item()
    return run


train_work.measure(make, 5)
train_work.measured(f"{train_work.NAME}: kernels", GlobalCounters.kernel_count, "kernels")
