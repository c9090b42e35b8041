"""Writes checkpoint.pt with PyTorch, and checkpoint.npz with the values. Needs torch, which the tests do not: both files
are in the repository.

    python test/io/data/make_torch.py [FOLDER]
"""

import collections
import pathlib
import sys

import numpy as np
import torch


def main(folder):
    torch.manual_seed(0)
    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    tied = torch.randn(3, 2)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 3)).sum().backward()
    optimizer.step()
    views = {
        "whole": base, "transposed": base.T, "rows": base[1:3], "every second": base[::2, 1::2], "column": base[:, 2],
        "expanded": base[0, :1].expand(2, 3), "windows": base.flatten().unfold(0, 4, 2), "one": base[2, 3],
        "diagonal": base.diagonal(), "none": base[:0], "swapped": base.reshape(2, 3, 4).permute(2, 0, 1),
    }
    dtypes = {str(d).removeprefix("torch."): torch.tensor([0, 1, 2, 3]).to(d)
              for d in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
                        torch.bfloat16, torch.float32, torch.float64)}
    for name in "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64":  # as new as some of them are
        if hasattr(torch, name):
            dtypes[name] = torch.tensor([0, 1, 2, 3]).to(getattr(torch, name))
    noted, noted_parameter = torch.ones(2, 2).t(), torch.nn.Parameter(torch.ones(3))
    noted.note = noted_parameter.note = "attributes of tensors are left out"
    checkpoint = {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "views": views, "dtypes": dtypes,
        "tied": [tied, tied, (tied.t(),)], "parameter": torch.nn.Parameter(torch.ones(2)),
        "noted": noted, "noted parameter": noted_parameter,
        "ordered": collections.OrderedDict(a=torch.zeros(1)), 7: torch.full((1,), 7),
        "epoch": 3, "loss": 0.25, "name": "a text", "nothing": None, "yes": True, "size": torch.Size([1, 2]),
        "device": torch.device("cpu"), "dtype": torch.float32, "large": 1 << 40, "negative": -5, "set": {1, 2},
    }
    torch.save(checkpoint, folder / "checkpoint.pt")
    values = {}

    def collect(path, value):
        if isinstance(value, torch.Tensor):
            value = value.detach()
            values[path] = value.float().numpy() if value.dtype.is_floating_point and value.dtype.itemsize < 4 \
                else value.to(torch.int64).numpy() if "uint" in str(value.dtype) else value.numpy()
        elif isinstance(value, dict):
            for key, inner in value.items():
                collect(f"{path}.{key}" if path else str(key), inner)
        elif isinstance(value, (list, tuple)):
            for i, inner in enumerate(value):
                collect(f"{path}.{i}", inner)

    collect("", checkpoint)
    np.savez(folder / "checkpoint.npz", **values)
    torch.save(base.T, folder / "tensor.pt", pickle_protocol=4)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
