#include "bench/models/models.h"

#include <cmath>

namespace quern::models {
namespace {

Tensor convolution(Network& net, const Tensor& x, int64_t from, int64_t to, int64_t kernel,
                   int64_t stride = 1) {
  const Tensor weight = net.parameter({to, from, kernel, kernel});
  const Tensor y = x.conv2d(weight, {}, {.stride = stride, .padding = kernel / 2});
  const Tensor scale = net.parameter({to}), shift = net.parameter({to}), mean = net.parameter({to}),
               var = net.parameter({to});
  return y.batchnorm(scale, shift, mean, (var + 1e-5).rsqrt());
}

Tensor bottleneck(Network& net, const Tensor& x, int64_t from, int64_t width, int64_t stride) {
  const int64_t to = 4 * width;
  Tensor y = convolution(net, x, from, width, 1).relu();
  y = convolution(net, y, width, width, 3, stride).relu();
  y = convolution(net, y, width, to, 1);
  const Tensor shortcut = from == to && stride == 1 ? x : convolution(net, x, from, to, 1, stride);
  return (y + shortcut).relu();
}

Tensor basic_block(Network& net, const Tensor& x, int64_t from, int64_t width, int64_t stride) {
  Tensor y = convolution(net, x, from, width, 3, stride).relu();
  y = convolution(net, y, width, width, 3);
  return (y + (from == width ? x : convolution(net, x, from, width, 1, stride))).relu();
}

Tensor residual(Network& net, int64_t batch, const std::vector<int64_t>& blocks, int64_t widening,
                Tensor (*block)(Network&, const Tensor&, int64_t, int64_t, int64_t)) {
  Tensor x = convolution(net, net.input({batch, 3, 224, 224}), 3, 64, 7, 2).relu();
  x = x.max_pool2d({3, 3}, {.stride = 2, .padding = 1});
  int64_t from = 64, width = 64;
  for (size_t stage = 0; stage < blocks.size(); stage++, width *= 2)
    for (int64_t i = 0; i < blocks[stage]; i++) {
      x = block(net, x, from, width, i == 0 && stage > 0 ? 2 : 1);
      from = widening * width;
    }
  return x.mean({2, 3}).linear(net.parameter({from, 1000}), net.parameter({1000}));
}

Tensor norm(Network& net, const Tensor& x, int64_t dim) {
  return x * (x.square().mean(-1, true) + 1e-5).rsqrt() * net.parameter({dim});
}

// Pairs of channels turned by their position.
Tensor rotated(const Tensor& x, const Tensor& cosines, const Tensor& sines, int64_t half) {
  const auto parts = x.split(half, -1);
  return Tensor::cat({parts[0] * cosines - parts[1] * sines, parts[1] * cosines + parts[0] * sines}, -1);
}

}  // namespace

Tensor resnet18(Network& net, int64_t batch) { return residual(net, batch, {2, 2, 2, 2}, 1, basic_block); }
Tensor resnet50(Network& net, int64_t batch) { return residual(net, batch, {3, 4, 6, 3}, 4, bottleneck); }

Tensor llama_loss(Network& net, const LlamaSize& size) {
  const int64_t head = size.dim / size.heads, half = head / 2, n = size.tokens;
  const Tensor tokens = net.input({1, n}, dtypes::int32), targets = net.input({1, n}, dtypes::int32);
  const Tensor cosines = net.input({1, 1, n, half}), sines = net.input({1, 1, n, half});
  const Tensor embedding = net.parameter({size.vocabulary, size.dim});
  Tensor x = embedding.index_select(0, tokens.reshape({n})).reshape({1, n, size.dim});
  for (int64_t i = 0; i < size.layers; i++) {
    const Tensor h = norm(net, x, size.dim);
    auto project = [&] {
      return h.matmul(net.parameter({size.dim, size.dim}))
          .reshape({1, n, size.heads, head})
          .permute({0, 2, 1, 3});
    };
    const Tensor q = rotated(project(), cosines, sines, half), k = rotated(project(), cosines, sines, half),
                 v = project();
    const Tensor attention = q.scaled_dot_product_attention(k, v, {}, {.causal = true});
    x = x +
        attention.permute({0, 2, 1, 3}).reshape({1, n, size.dim}).matmul(net.parameter({size.dim, size.dim}));
    const Tensor f = norm(net, x, size.dim);
    const Tensor gate = f.matmul(net.parameter({size.dim, size.hidden})),
                 up = f.matmul(net.parameter({size.dim, size.hidden}));
    x = x + (gate.silu() * up).matmul(net.parameter({size.hidden, size.dim}));
  }
  const Tensor logits = norm(net, x, size.dim).matmul(net.parameter({size.dim, size.vocabulary}));
  return logits.reshape({n, size.vocabulary}).sparse_categorical_crossentropy(targets.reshape({n}));
}

std::vector<Tensor> sgd_step(const Tensor& loss, const Network& net) {
  const std::vector<Tensor> gradients = loss.gradient(net.parameters);
  for (size_t i = 0; i < gradients.size(); i++)
    net.parameters[i].assign(net.parameters[i] - gradients[i] * 1e-3);
  return net.parameters;
}

Tensor lstm_loss(Network& net, int64_t steps) {
  const int64_t units = 128, batch = 16;
  const Tensor wx = net.parameter({units, 4 * units}), wh = net.parameter({units, 4 * units}),
               bias = net.parameter({4 * units});
  const Tensor inputs = net.input({steps, batch, units});
  Tensor h = net.input({batch, units}), c = net.input({batch, units});
  for (int64_t t = 0; t < steps; t++) {
    const Tensor x = inputs.shrink({{{t, t + 1}}, {}, {}}).reshape({batch, units});
    const auto gates = (x.matmul(wx) + h.matmul(wh) + bias).chunk(4, 1);
    c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh();
    h = gates[3].sigmoid() * c.tanh();
  }
  return h.sum();
}

}  // namespace quern::models
