"""Arguments have the names that those of tinygrad have, in that order (but for those that go by name alone)."""

import inspect
import re

import pytest

from quern import Tensor, nn

TENSOR = """
empty(dtype, device) full(shape, fill_value, dtype, device, buffer) arange(start, stop, step, dtype)
linspace(start, stop, steps, dtype) eye(n, m, dtype) tril(diagonal) triu(diagonal) meshgrid(indexing) one_hot(num_classes)
from_blob(ptr, shape) empty_like(dtype, device) full_like(fill_value, dtype, device, buffer) randn_like(dtype)
rand(dtype, device, contiguous) randn(dtype) randint(low, high, dtype) normal(mean, std) uniform(low, high, dtype)
kaiming_uniform(a) kaiming_normal(a) randperm(n, device, dtype) multinomial(num_samples, replacement) dropout(p)
manual_seed(seed) reshape(shape) view(shape) expand(shape) permute(order) transpose(dim0, dim1) flatten(start_dim, end_dim)
unflatten(dim, sizes) squeeze(dim) unsqueeze(dim) shrink(arg) pad(padding, mode, value) flip(axis) roll(shifts, dims)
repeat(repeats) repeat_interleave(repeats, dim) cat(dim) stack(dim) split(sizes, dim) chunk(chunks, dim)
unfold(dim, size, step) rearrange(formula) diagonal(offset, dim1, dim2) shrink_to(shape) pad_to(shape, value)
gather(dim, index) scatter(dim, index, src, reduce) scatter_reduce(dim, index, src, reduce, include_self)
masked_select(mask, size, fill_value) masked_fill(mask, value) nonzero(size, fill_value) sort(dim, descending)
argsort(dim, descending) topk(k, dim, largest, sorted_) interpolate(size, mode, align_corners) add(x, reverse)
sub(x, reverse) mul(x, reverse) div(x, reverse, rounding_mode) mod(x, reverse) fmod(x) pow(x, reverse) maximum(x) minimum(x)
where(x, y) lerp(end, weight) clamp(min_, max_) clip(min_, max_) copysign(other) logaddexp(other) leaky_relu(neg_slope)
elu(alpha) celu(alpha) selu(alpha, gamma) gelu(approximate) softplus(beta) hardsigmoid(alpha, beta)
hardtanh(min_val, max_val) bitwise_and(x, reverse) bitwise_or(x, reverse) bitwise_xor(x, reverse) lshift(x, reverse)
rshift(x, reverse) eq(x) ne(x) isinf(detect_positive, detect_negative) isclose(other, rtol, atol, equal_nan)
allclose(other, rtol, atol, equal_nan) cast(dtype) bitcast(dtype) threefry(seed) sum(axis, keepdim, dtype)
prod(axis, keepdim, dtype) max(axis, keepdim) min(axis, keepdim) mean(axis, keepdim) var(axis, keepdim, correction)
std(axis, keepdim, correction) var_mean(axis, keepdim, correction) std_mean(axis, keepdim, correction) any(axis, keepdim)
all(axis, keepdim) argmax(axis, keepdim) argmin(axis, keepdim) logsumexp(axis, keepdim) softmax(axis, dtype)
softmin(axis, dtype) log_softmax(axis, dtype) cumsum(axis) cumprod(axis) cummax(axis) cummin(axis) logcumsumexp(axis)
normalize(p, dim, eps) dot(w, dtype) matmul(x, reverse, dtype) einsum(formula, dtype) linear(weight, bias, dtype)
conv2d(weight, bias, groups, stride, dilation, padding, dtype)
conv_transpose2d(weight, bias, groups, stride, dilation, padding, output_padding)
avg_pool2d(kernel_size, stride, dilation, padding, ceil_mode, count_include_pad)
max_pool2d(kernel_size, stride, dilation, padding, ceil_mode, return_indices)
max_unpool2d(indices, kernel_size, stride, dilation, padding, output_size) batchnorm(weight, bias, mean, invstd, axis)
layernorm(axis, eps) scaled_dot_product_attention(key, value, attn_mask, dropout_p, is_causal, enable_gqa)
svd(full_matrices) newton_schulz(steps, params, eps) sequential(ll) cross_entropy(Y, reduction, label_smoothing)
sparse_categorical_crossentropy(Y, ignore_index, label_smoothing, reduction) nll_loss(Y, weight, ignore_index, reduction)
binary_crossentropy(Y, reduction) binary_crossentropy_logits(Y, reduction, pos_weight) realize(do_update_stats) assign(x)
replace(x) clone(device) to(device) shard(devices, axis) shard_like(y)
random_bits(key, counter, num) backward(gradient) gradient(gradient) custom_kernel(fxn, grad_fxn)
"""
OTHERS = """
nn.Linear(in_features, out_features, bias)
nn.Conv1d(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias)
nn.ConvTranspose1d(in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, bias)
nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, bias)
nn.BatchNorm(sz, eps, affine, track_running_stats, momentum) nn.BatchNorm2d(sz, eps, affine, track_running_stats, momentum)
nn.BatchNorm3d(sz, eps, affine, track_running_stats, momentum) nn.GroupNorm(num_groups, num_channels, eps, affine)
nn.InstanceNorm(num_features, eps, affine) nn.LayerNorm(normalized_shape, eps, elementwise_affine)
nn.LayerNorm2d(normalized_shape, eps, elementwise_affine) nn.RMSNorm(dim, eps, elementwise_affine)
nn.Embedding(vocab_size, embed_size) nn.LSTMCell(input_size, hidden_size, bias)
optim.SGD(params, lr, momentum, weight_decay, nesterov, classic, device, fused)
optim.Adam(params, lr, b1, b2, eps, device, fused) optim.AdamW(params, lr, b1, b2, eps, weight_decay, device, fused)
optim.LAMB(params, lr, b1, b2, eps, weight_decay, adam, device, fused)
optim.LARS(params, lr, momentum, weight_decay, ns_steps, ns_coefficients, nesterov, classic, pre_wd, tcoef, device, fused)
optim.Muon(params, lr, momentum, weight_decay, ns_steps, ns_coefficients, nesterov, device, fused) state.get_parameters(obj)
state.get_state_dict(obj, prefix, tensor_type) state.load_state_dict(model, state_dict, strict, verbose, consume, realize)
state.safe_load(fn) state.safe_save(tensors, fn, metadata) state.torch_load(t)
"""


def entries(table):
    return [(name, arguments.split(", ")) for name, arguments in re.findall(r"([\w.]+)\(([^)]*)\)", table)]


def arguments_of(function):
    """All ways to call it, as lists of names."""
    if inspect.isclass(function):
        function = function.__init__
    if not hasattr(function, "__nb_signature__"):
        return [[p.lstrip("*") for p in inspect.signature(function).parameters if p != "self"]]
    found = []
    for signature, *_ in function.__nb_signature__:
        inside = signature[signature.index("(") + 1:signature.rindex(")")]
        while "[" in inside:
            inside = re.sub(r"\[[^\[\]]*\]", "", inside)
        names = [part.split(":")[0].split("=")[0].strip().lstrip("*") for part in inside.split(",")]
        found.append([name for name in names if name not in ("self", "", "/")])
    return found


@pytest.mark.parametrize("name, arguments", entries(TENSOR))
def test_of_tensor(name, arguments):
    ways = arguments_of(getattr(Tensor, name))
    assert any([a for a in way if a in arguments] == arguments for way in ways), ways


@pytest.mark.parametrize("name, arguments", entries(OTHERS))
def test_of_others(name, arguments):
    module, name = name.split(".")
    ways = arguments_of(getattr({"nn": nn, "optim": nn.optim, "state": nn.state}[module], name))
    assert any([a for a in way if a in arguments] == arguments for way in ways), ways
