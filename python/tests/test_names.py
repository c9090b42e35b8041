"""Every public name is there, and has a docstring."""

import pytest

import quern
from quern import Tensor, dtypes, nn

TENSOR = """
empty full zeros ones arange linspace eye tril triu diag meshgrid one_hot from_blob from_file
empty_like full_like zeros_like ones_like rand_like randn_like
rand randn randint normal uniform scaled_uniform glorot_uniform kaiming_uniform kaiming_normal randperm multinomial dropout
manual_seed
reshape view expand permute transpose T flatten unflatten squeeze unsqueeze shrink pad flip roll repeat repeat_interleave cat
stack split chunk unfold rearrange diagonal shrink_to pad_to
gather scatter scatter_reduce masked_select masked_fill nonzero sort argsort topk interpolate
add sub mul div mod fmod pow neg reciprocal maximum minimum where lerp clamp clip abs sign copysign ceil floor round trunc sqrt
rsqrt square exp exp2 log log2 log10 logaddexp sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid
logsigmoid relu relu6 leaky_relu elu celu selu gelu quick_gelu silu swish mish softplus softsign hardsigmoid hardswish hardtanh
bitwise_and bitwise_or bitwise_xor bitwise_not lshift rshift logical_not eq ne lt le gt ge isnan isinf isfinite isclose allclose
cast bitcast half float double int long short bool bfloat16 threefry
sum prod max min mean var std var_mean std_mean any all argmax argmin logsumexp softmax softmin log_softmax cumsum cumprod cummax
cummin logcumsumexp normalize
dot matmul einsum linear conv2d conv_transpose2d avg_pool2d max_pool2d max_unpool2d batchnorm layernorm
scaled_dot_product_attention qr svd newton_schulz sequential
cross_entropy sparse_categorical_crossentropy nll_loss binary_crossentropy binary_crossentropy_logits
realize schedule uop numpy tolist item data assign replace detach contiguous contiguous_backward clone to shard backward gradient
requires_grad custom_kernel shard_like random_bits const_like from_url grad shape dtype device ndim numel train training
""".split()
NN = """
Linear Conv1d Conv2d ConvTranspose1d ConvTranspose2d BatchNorm BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm LayerNorm
LayerNorm2d RMSNorm Embedding LSTMCell
""".split()
OPTIM = "SGD Adam AdamW LAMB LARS Muon OptimizerGroup".split()
STATE = "get_parameters get_state_dict load_state_dict safe_load safe_save torch_load gguf_load".split()
DTYPES = """
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 fp8e4m3 fp8e5m2 float16 bfloat16 float32 float64 default_float
default_int
""".split()
TOP = "Tensor dtypes Device Buffer Variable TinyJit jit function Context GlobalCounters nn UOp estimate getenv".split()


@pytest.mark.parametrize("name", TENSOR)
def test_tensor(name):
    assert hasattr(Tensor, name)
    if callable(getattr(Tensor, name)):
        assert getattr(Tensor, name).__doc__


@pytest.mark.parametrize("module, names", [(quern, TOP), (nn, NN), (nn.optim, OPTIM), (nn.state, STATE), (dtypes, DTYPES)])
def test_module(module, names):
    assert [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize("module, names", [(nn, NN), (nn.optim, OPTIM), (nn.state, STATE)])
def test_docstrings(module, names):
    assert [name for name in names if not getattr(module, name).__doc__] == []
