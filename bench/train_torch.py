"""The train suite's work by PyTorch on the CPU."""

import torch
import train_work
from torch import nn


def make():
    net = nn.Sequential(nn.Conv2d(1, 32, 5), nn.ReLU(), nn.Conv2d(32, 32, 5), nn.ReLU(), nn.BatchNorm2d(32), nn.MaxPool2d(2),
                        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.BatchNorm2d(64), nn.MaxPool2d(2),
                        nn.Flatten(), nn.Linear(576, 10))
    optimiser = torch.optim.Adam(net.parameters())
    x, y = torch.from_numpy(train_work.IMAGES), torch.from_numpy(train_work.DIGITS).long()

    def step():
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimiser.step()
        loss.item()
    return step


train_work.measure(make, 10)
