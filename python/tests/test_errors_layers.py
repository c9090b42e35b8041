"""Wrong use of products, convolutions, losses; layers, optimisers, states and files of them."""

import json
import struct
import zipfile

import numpy as np
import pytest
from wrong import refuses, row, wanted

import quern
from quern import DTypeError, Error, MissingFileError, ShapeError, Tensor, nn
from quern.nn import optim, state

m = Tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]).realize()
p = Tensor([1.0, 2.0]).realize()
image, weight = Tensor.ones(1, 4, 8, 8), Tensor.ones(2, 4, 3, 3)
heads = Tensor.ones(1, 2, 3, 4)

FUNCTIONS = [
    row(ShapeError, "matmul: shapes (2, 3) and (2, 3): 3 columns against 2 rows", lambda: m @ m),
    row(ShapeError, "matmul: both need at least one axis, given (2, 3) and ()", lambda: m @ Tensor(1.0)),
    row(TypeError, "matmul(): incompatible function arguments", lambda: m.matmul(5)),
    row(quern.ValueError, "einsum \"ij,jk->ik\": 'j' is 3 and 2", lambda: Tensor.einsum("ij,jk->ik", m, m)),
    row(quern.ValueError, 'einsum "ij->ij": 1 terms for 2 tensors', lambda: Tensor.einsum("ij->ij", m, m)),
    row(quern.ValueError, 'einsum "ijk->k": the term "ijk" has 3 letters for 2 axes', lambda: Tensor.einsum("ijk->k", m)),
    row(quern.ValueError, "einsum \"ij->iz\": 'z' of the result is in no term", lambda: Tensor.einsum("ij->iz", m)),
    row(quern.ValueError, "einsum \"i1->i\": '1' is not a letter", lambda: Tensor.einsum("i1->i", m)),
    row(TypeError, "expected a Tensor, got 5", lambda: Tensor.einsum("ij->i", 5)),
    row(ShapeError, "conv2d: weight has 3 input channels, input has 4 (groups=1)", lambda: image.conv2d(Tensor.ones(2, 3, 3, 3))),
    row(ShapeError, "conv2d: the kernel reaches over 9 elements, axis 2 of the padded input has 8",
        lambda: image.conv2d(Tensor.ones(2, 4, 9, 9))),
    row(ShapeError, "conv2d: bias has shape (3,), expected (2,)", lambda: image.conv2d(weight, Tensor.ones(3))),
    row(ShapeError, "conv2d: input (1, 4, 8, 8) and weight (2, 4, 3) need the same number of axes",
        lambda: image.conv2d(Tensor.ones(2, 4, 3))),
    row(ShapeError, "conv2d: 2 output channels cannot be divided into 3 groups", lambda: image.conv2d(weight, groups=3)),
    row(quern.ValueError, "conv2d: groups is 0; it must be positive", lambda: image.conv2d(weight, groups=0)),
    row(quern.ValueError, "conv2d: stride is [0, 0]; each must be at least 1", lambda: image.conv2d(weight, stride=0)),
    row(ShapeError, "conv2d: stride has 3 numbers, expected 1 or 2", lambda: image.conv2d(weight, stride=(1, 2, 3))),
    row(ShapeError, "conv2d: padding has 3 numbers, expected 1, 2 or 4", lambda: image.conv2d(weight, padding=(1, 2, 3))),
    row(quern.ValueError, "conv2d: padding is [-5]; it must not be negative", lambda: image.conv2d(weight, padding=-5)),
    row(TypeError, "expected an int, or a tuple of them, got 'same'", lambda: image.conv2d(weight, padding="same")),
    row(ShapeError, "conv_transpose2d: weight has 2 input channels, input has 4", lambda: image.conv_transpose2d(weight)),
    row(quern.ValueError, "conv_transpose2d: output_padding 5 must be below stride 1 or dilation 1",
        lambda: image.conv_transpose2d(Tensor.ones(4, 2, 3, 3), output_padding=5)),
    row(ShapeError, "avg_pool2d: the window reaches over 20 elements, axis -2 has 8 with padding", lambda: image.avg_pool2d(20)),
    row(quern.ValueError, "avg_pool2d: the window is [0, 0]; each must be at least 1", lambda: image.avg_pool2d(0)),
    row(ShapeError, "max_pool2d: needs at least 2 axes, given ()", lambda: Tensor(1).max_pool2d()),
    row(quern.ValueError, "max_pool2d: padding is [-1]; it must not be negative", lambda: image.max_pool2d(2, padding=-1)),
    row(DTypeError, "max_unpool2d: the indices must be integers, given float32 (1, 4, 8, 8)", lambda: image.max_unpool2d(image)),
    row(ShapeError, "batchnorm: mean has shape (3,), expected as many elements as (1, 4, 1, 1)",
        lambda: image.batchnorm(None, None, Tensor.ones(3), Tensor.ones(4))),
    row(ShapeError, "scaled_dot_product_attention: query (2, 3), key (2, 4) and value (2, 3) do not fit",
        lambda: m.scaled_dot_product_attention(Tensor.ones(2, 4), m)),
    row(quern.ValueError, "scaled_dot_product_attention: give a mask or causal, not both",
        lambda: heads.scaled_dot_product_attention(heads, heads, attn_mask=Tensor.ones(3, 3), is_causal=True)),
    row(ShapeError, "3 query heads are not a multiple of 2 key or value heads",
        lambda: Tensor.ones(1, 3, 3, 4).scaled_dot_product_attention(heads, heads, enable_gqa=True)),
    row(ShapeError, "svd: needs at least 2 axes, given (3,)", lambda: Tensor.ones(3).svd()),
    row(quern.ValueError, "newton_schulz: -1 steps; there must be 0 or more", lambda: m.newton_schulz(-1, (1, 2, 3))),
    row(quern.ValueError, 'cross_entropy: reduction is "median", not "mean", "sum" or "none"',
        lambda: m.cross_entropy(Tensor([0, 1]), reduction="median")),
    row(ShapeError, "cross_entropy: classes have shape (3,), expected (2,) for predictions (2, 3)",
        lambda: m.cross_entropy(Tensor([0, 1, 2]))),
    row(DTypeError, "sparse_categorical_crossentropy: the targets must be integers, given float32 (2,)",
        lambda: m.sparse_categorical_crossentropy(Tensor([0.5, 1.0]))),
    row(ShapeError, "nll_loss: weight has shape (7,), expected (3,)", lambda: m.nll_loss(Tensor([0, 1]), weight=Tensor.ones(7))),
    row(ShapeError, "binary_crossentropy: predictions (2, 3) and targets (5,) differ in shape",
        lambda: m.binary_crossentropy(Tensor.ones(5))),
    row(TypeError, "@", lambda: m @ 5),
    row(ShapeError, "matmul: shapes (2, 3, 4) and (3, 4, 5)", lambda: Tensor.ones(2, 3, 4) @ Tensor.ones(3, 4, 5)),
    row(ShapeError, "linear: ", lambda: m.linear(Tensor.ones(3, 2), Tensor.ones(5))),
    row(ShapeError, "attn_mask", lambda: heads.scaled_dot_product_attention(heads, heads, attn_mask=Tensor.ones(5, 5))),
    row(ShapeError, "pos_weight", lambda: m.binary_crossentropy_logits(m, pos_weight=Tensor.ones(9))),
]

LAYERS = [
    row(TypeError, "missing 2 required positional arguments: 'in_features' and 'out_features'", lambda: nn.Linear()),
    row(TypeError, "Linear: in_features is 'a', expected an int", lambda: nn.Linear("a", 4)),
    row(ShapeError, "Linear: in_features is -1, expected at least 0", lambda: nn.Linear(-1, 4)),
    row(ShapeError, "Linear: axis 1 of the input (2, 2) is 2, expected 3", lambda: nn.Linear(3, 4)(Tensor.ones(2, 2))),
    row(ShapeError, "Linear: the input has shape (), expected at least 1 axes", lambda: nn.Linear(3, 4)(Tensor(1.0))),
    row(TypeError, "Linear: the input is [1, 2, 3], expected a Tensor", lambda: nn.Linear(3, 4)([1, 2, 3])),
    row(ShapeError, "conv2d: weight has 3 input channels, input has 2 (groups=1)", lambda: nn.Conv2d(3, 4, 3)(Tensor.ones(1, 2, 8, 8))),
    row(TypeError, "Conv2d: the input is 5, expected a Tensor", lambda: nn.Conv2d(3, 4, 3)(5)),
    row(quern.ValueError, "Conv2d: padding is a number, numbers, 'same' or 'valid', not 'circular'", lambda: nn.Conv2d(3, 4, 3, padding="circular")),
    row(quern.ValueError, "Conv2d: padding 'same' needs a stride of 1, not 2", lambda: nn.Conv2d(3, 4, 3, padding="same", stride=2)),
    row(ShapeError, "Conv2d: in_channels is 3, which cannot be divided into 2 groups", lambda: nn.Conv2d(3, 4, 3, groups=2)),
    row(ShapeError, "Conv2d: out_channels is 3, which cannot be divided into 2 groups", lambda: nn.Conv2d(4, 3, 3, groups=2)),
    row(ShapeError, "Conv2d: groups is 0, expected at least 1", lambda: nn.Conv2d(4, 4, 3, groups=0)),
    row(TypeError, "Conv2d: kernel_size is 'a', expected an int or a tuple of them", lambda: nn.Conv2d(4, 4, "a")),
    row(TypeError, "Conv2d: kernel_size is 3.5, expected an int or a tuple of them", lambda: nn.Conv2d(4, 4, 3.5)),
    row(ShapeError, "Conv1d: kernel_size is (3, 3), expected 1 numbers", lambda: nn.Conv1d(3, 4, (3, 3))),
    row(ShapeError, "ConvTranspose2d: out_channels is 5, which cannot be divided into 2 groups",
        lambda: nn.ConvTranspose2d(4, 5, 3, groups=2)),
    row(ShapeError, "ConvTranspose2d: groups is 0, expected at least 1", lambda: nn.ConvTranspose2d(3, 4, 3, groups=0)),
    row(ShapeError, "conv_transpose2d: weight has 3 input channels, input has 2",
        lambda: nn.ConvTranspose2d(3, 4, 3)(Tensor.ones(1, 2, 8, 8))),
    row(TypeError, "BatchNorm: sz is 'a', expected an int", lambda: nn.BatchNorm("a")),
    row(ShapeError, "BatchNorm: axis 1 of the input (2, 4, 5) is 4, expected 3", lambda: nn.BatchNorm(3)(Tensor.ones(2, 4, 5))),
    row(ShapeError, "BatchNorm: the input has shape (3,), expected at least 2 axes", lambda: nn.BatchNorm(3)(Tensor.ones(3))),
    row(ShapeError, "GroupNorm: num_channels is 4, which cannot be divided into 3 groups", lambda: nn.GroupNorm(3, 4)),
    row(ShapeError, "GroupNorm: axis 1 of the input (2, 6, 5) is 6, expected 4", lambda: nn.GroupNorm(2, 4)(Tensor.ones(2, 6, 5))),
    row(ShapeError, "InstanceNorm: axis 1 of the input (2, 3, 5) is 3, expected 4", lambda: nn.InstanceNorm(4)(Tensor.ones(2, 3, 5))),
    row(ShapeError, "LayerNorm: the last axes of (2, 5) are not (4,)", lambda: nn.LayerNorm(4)(Tensor.ones(2, 5))),
    row(TypeError, "LayerNorm: normalized_shape is 'a', expected an int or a tuple of them", lambda: nn.LayerNorm("a")),
    row(ShapeError, "LayerNorm2d: the input has shape (2, 3, 4), expected (batch, channels, height, width)",
        lambda: nn.LayerNorm2d(3)(Tensor.ones(2, 3, 4))),
    row(ShapeError, "RMSNorm: axis 1 of the input (2, 5) is 5, expected 4", lambda: nn.RMSNorm(4)(Tensor.ones(2, 5))),
    row(ShapeError, "Embedding: vocab_size is -5, expected at least 0", lambda: nn.Embedding(-5, 3)),
    row(quern.IndexError, "index: a tensor of float32; indices are integers or bools", lambda: nn.Embedding(5, 3)(Tensor([0.5]))),
    row(ShapeError, "LSTMCell: the input has shape (3,), expected (batch, 3)", lambda: nn.LSTMCell(3, 4)(Tensor.ones(3))),
    row(TypeError, "LSTMCell: expected two tensors of shape (batch, 4) as the state, got a Tensor: float32 (2, 4)",
        lambda: nn.LSTMCell(3, 4)(Tensor.ones(2, 3), Tensor.ones(2, 4))),
]

OPTIMISERS = [
    row(Error, "SGD: there are no parameters to train", lambda: optim.SGD([])),
    row(Error, "SGD: there are no parameters to train", lambda: optim.SGD([Tensor([1.0], requires_grad=False)])),
    row(DTypeError, "requires_grad: gradients need floats, this tensor is int32 (1,)", lambda: optim.SGD([Tensor([1])])),
    row(TypeError, "expected a list of tensors to train, got [5]", lambda: optim.SGD([5])),
    row(TypeError, "unexpected keyword argument 'nonsense'", lambda: optim.SGD([p], nonsense=True)),
    row(quern.ValueError, "SGD: lr is -1, expected 0 to 1e+30", lambda: optim.SGD([p], lr=-1)),
    row(quern.ValueError, "SGD: momentum is -1, expected 0 to 1", lambda: optim.SGD([p], momentum=-1)),
    row(quern.ValueError, "Adam: b1 is 1.5, expected 0 to 1", lambda: optim.Adam([p], b1=1.5)),
    row(quern.ValueError, "LAMB: weight_decay is -1, expected 0 to 1e+30", lambda: optim.LAMB([p], weight_decay=-1)),
    row(quern.ValueError, "LARS: tcoef is -1, expected 0 to 1e+30", lambda: optim.LARS([p], tcoef=-1)),
    row(quern.ValueError, "LARS: ns_steps is 3, and there are no ns_coefficients", lambda: optim.LARS([p], ns_steps=3)),
    row(ShapeError, "Muon: a parameter of 1 axes, expected 2 or more", lambda: optim.Muon([p])),
    row(Error, "on the device of its parameters, CPU, not on INTERP", lambda: optim.SGD([p], device="INTERP")),
    row(quern.ValueError, "step: parameter 1 of 1 has no gradient; was backward() called", lambda: optim.SGD([Tensor([1.0])]).step()),
    row(quern.ValueError, "OptimizerGroup: there are no optimizers", lambda: optim.OptimizerGroup()),
    row(TypeError, "OptimizerGroup: expected optimizers, got list", lambda: optim.OptimizerGroup([optim.SGD([p])])),
    row(quern.ValueError, "OptimizerGroup: two of its optimizers have the same parameter",
        lambda: optim.OptimizerGroup(optim.SGD([p]), optim.SGD([p]))),
    row(TypeError, "SGD: lr is 'a', expected a number", lambda: setattr(optim.SGD([p]), "lr", "a")),
    row(quern.ValueError, "lr is -1, expected 0 to 1e+30", lambda: setattr(optim.SGD([p]), "lr", -1)),
    row(quern.ValueError, "clip_grad_norm: the most is -1, expected more than 0", lambda: optim.clip_grad_norm([p], -1.0)),
    row(Error, "clip_grad_value: no parameter has a gradient", lambda: optim.clip_grad_value([Tensor([1.0])], 1.0)),
    row(TypeError, "expected a list of tensors to train, got a Tensor: float32 (2,)", lambda: optim.SGD(Tensor([1.0, 2.0]))),
    row(ShapeError, "lr", lambda: setattr(optim.SGD([p]), "lr", Tensor([1.0, 2.0]))),
]

STATES = [
    row(Error, "load_state_dict: missing ['weight', 'bias'], not used []", lambda: state.load_state_dict(nn.Linear(2, 2), {})),
    row(Error, "load_state_dict: missing ['bias'], not used ['more']",
        lambda: state.load_state_dict(nn.Linear(2, 2), {"weight": m, "more": m})),
    row(ShapeError, "load_state_dict: weight has shape (2, 2) in the model, (2, 3) in what is loaded",
        lambda: state.load_state_dict(nn.Linear(2, 2), {"weight": m, "bias": p})),
    row(TypeError, "load_state_dict: weight is 5, expected a Tensor",
        lambda: state.load_state_dict(nn.Linear(2, 2), {"weight": 5, "bias": p})),
    row(TypeError, "load_state_dict: expected a dictionary of tensors, got [1]", lambda: state.load_state_dict(nn.Linear(2, 2), [1])),
    row(TypeError, "safe_save: expected tensors by name, got 'a': int", lambda: state.safe_save({"a": 5}, "/no/such/x")),
    row(TypeError, "safe_save: expected tensors by name, got 5: Tensor", lambda: state.safe_save({5: p}, "/no/such/x")),
    row(TypeError, "safe_save: expected a dictionary of tensors", lambda: state.safe_save([p], "/no/such/x")),
    row(TypeError, "safe_save(): incompatible function arguments", lambda: state.safe_save(5, "/no/such/x")),
    row(Error, "/no/such/x: cannot be written: No such file or directory", lambda: state.safe_save({"a": p}, "/no/such/x")),
    row(TypeError, "expected str, bytes or os.PathLike object, not int", lambda: state.safe_save({"a": p}, 5)),
    row(DTypeError, "gguf_load: expected the bytes of a file, uint8 along one axis, got float32", lambda: state.gguf_load(p)),
    row(Error, "expected a path, or a tensor that is a file (Tensor(path)), got a tensor on CPU", lambda: state.npy_load(p)),
    row(DTypeError, "npy_save: the tensor is bfloat16, which NumPy does not have; cast it",
        lambda: state.npy_save(Tensor.ones(2, dtype="bfloat16"), "/no/such/x")),
    *(row(MissingFileError, "/no/such: No such file or directory", lambda load=load: load("/no/such"))
      for load in (state.safe_load, state.safe_load_metadata, state.torch_load, state.gguf_load, state.npy_load, state.npz_load)),
    *(row(TypeError, "expected str, bytes or os.PathLike object, not int", lambda load=load: load(5))
      for load in (state.safe_load, state.torch_load, state.gguf_load, state.npy_load)),
    row(FileNotFoundError, "/no/such", lambda: state.tar_extract("/no/such")),
    row(zipfile.BadZipFile, "not a zip file", lambda: state.zip_extract(Tensor(b"abc"))),
]


@pytest.mark.parametrize("kind, text, call", FUNCTIONS)
def test_functions(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.parametrize("kind, text, call", LAYERS)
def test_layers(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.parametrize("kind, text, call", OPTIMISERS)
def test_optimisers(kind, text, call):
    refuses(kind, text, call)


@pytest.mark.parametrize("kind, text, call", STATES)
def test_states(kind, text, call):
    refuses(kind, text, call)


def test_nothing_is_loaded_of_a_state_that_does_not_fit():
    layer = nn.Linear(2, 2)
    before = layer.bias.tolist()
    with pytest.raises(ShapeError):
        state.load_state_dict(layer, {"bias": Tensor([7.0, 7.0]), "weight": m})
    assert layer.bias.tolist() == before
