#!/usr/bin/env bash
# wheel.sh FILE PYTHON: installs a wheel as a new user would, in a new virtual environment and far from the repository, and
# trains with it. What it maps into memory must be its own or the system's C and C++ libraries.
set -euo pipefail
wheel=$(realpath "$1") python=$(realpath -s "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$python" -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check --no-index "$wheel"
user() { env -i HOME="$folder" PATH=/usr/bin:/bin "$folder/venv/bin/python" "$@"; }

user -m quern
cat >train.py <<'END'
import re
import time

start = time.perf_counter()
from quern import Device, Tensor, TinyJit, nn

print(f"import: {time.perf_counter() - start:.3f} s")
Tensor.manual_seed(1)
images, labels, test_images, test_labels = nn.datasets.digits()
layers = [nn.Conv2d(1, 16, 3, padding=1), Tensor.relu, Tensor.max_pool2d, nn.Conv2d(16, 32, 3, padding=1), Tensor.relu,
          Tensor.max_pool2d, lambda x: x.flatten(1), nn.Linear(128, 10)]
optimiser = nn.optim.Adam(nn.state.get_parameters(layers), lr=0.005)


@TinyJit
def step(samples):
    with Tensor.train():
        optimiser.zero_grad()
        loss = images[samples].sequential(layers).cross_entropy(labels[samples]).backward()
        optimiser.step()
        return loss


for _ in range(500):
    loss = step(Tensor.randint(64, high=images.shape[0]).realize())
right = (test_images.sequential(layers).argmax(1) == test_labels).float().mean().item()
print(f"digits: {right:.1%} of {test_images.shape[0]} right, {time.perf_counter() - start:.1f} s in all")
assert right > 0.95, right

mapped = set(re.findall(r"/\S+\.so\S*", open("/proc/self/maps").read()))
foreign = [p for p in mapped if "/venv/" not in p]
assert not re.search("LLVM|zstd|xml2|z3", " ".join(foreign)), foreign
assert any("libquern_llvm" in p for p in mapped) or Device.DEFAULT != "CPU", mapped
END
user train.py
