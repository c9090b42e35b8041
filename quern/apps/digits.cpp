#include "quern/apps/digits.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <random>

#include "quern/base/error.h"
#include "quern/engine/jit/jit.h"
#include "quern/tensor/core/training.h"

namespace quern::embedded {
extern const unsigned char digits[];
extern const size_t digits_size;
}  // namespace quern::embedded

namespace quern::apps {
namespace {

constexpr size_t kPixels = 64, kRow = kPixels + 1;
constexpr double kMostInk = 16;

// `i` in an order of its own for each seed: the standard library's shuffle may differ from one to the next.
void mix(std::vector<size_t>& order, std::mt19937_64& random) {
  for (size_t i = order.size(); i > 1; i--) std::swap(order[i - 1], order[random() % i]);
}

Digits taken(const unsigned char* rows, std::span<const size_t> which) {
  std::vector<float> pixels;
  std::vector<int32_t> labels;
  for (const size_t i : which) {
    const unsigned char* const row = rows + i * kRow;
    for (size_t k = 0; k < kPixels; k++) pixels.push_back(static_cast<float>(row[k] / kMostInk));
    labels.push_back(row[kPixels]);
  }
  const auto n = static_cast<int64_t>(which.size());
  return {Tensor::from(pixels, Shape{n, 1, 8, 8}), Tensor::from(labels), {labels.begin(), labels.end()}};
}

}  // namespace

DigitData load_digits(uint64_t seed) {
  // A file of NumPy: ten bytes, of which the last two say how long the text behind them is, and then the
  // rows.
  const size_t header = 10 + embedded::digits[8] + (size_t{embedded::digits[9]} << 8);
  const size_t count = (embedded::digits_size - header) / kRow;
  const unsigned char* const rows = embedded::digits + header;
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(seed);
  mix(order, random);
  const size_t first = count * 4 / 5;
  return {taken(rows, std::span(order).first(first)), taken(rows, std::span(order).subspan(first))};
}

std::vector<std::string> drawn(const Digits& digits, size_t i) {
  constexpr std::array<const char*, 5> kInk = {"  ", "\u2591\u2591", "\u2592\u2592", "\u2593\u2593",
                                               "\u2588\u2588"};
  const auto at = static_cast<int64_t>(i);
  const auto pixels = digits.images.shrink({std::pair<Dim, Dim>(at, at + 1), {}, {}, {}}).to_vector<float>();
  std::vector<std::string> lines(8);
  for (size_t k = 0; k < pixels.size(); k++)
    lines[k / 8] += kInk[static_cast<size_t>(std::min(pixels[k] * 5, 4.0F))];
  return lines;
}

Tensor DigitNet::operator()(const Tensor& x) const {
  Tensor y = norm(second(first(x).relu()).relu()).max_pool2d();
  y = last_norm(third(y).relu()).max_pool2d();
  return out(y.flatten(1));
}

std::vector<int> predicted(const DigitNet& net, const Digits& digits) {
  const Training off(false);
  const auto best = net(digits.images).argmax(1).cast(dtypes::int32).to_vector<int32_t>();
  return {best.begin(), best.end()};
}

double accuracy(const DigitNet& net, const Digits& digits) {
  const std::vector<int> got = predicted(net, digits);
  size_t right = 0;
  for (size_t i = 0; i < got.size(); i++) right += got[i] == digits.digits[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(got.size());
}

TrainingReport train(const DigitNet& net, const Digits& digits, const TrainingSettings& settings,
                     const std::function<void(const TrainingProgress&)>& tell) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  const Training on;
  nn::Adam optimiser(nn::get_parameters(net), {.lr = 2e-3});
  const auto step = jit([&](const Tensor& which) {
    optimiser.zero_grad();
    const Tensor loss = net(digits.images.index_select(0, which))
                            .sparse_categorical_crossentropy(digits.labels.index_select(0, which));
    loss.backward();
    optimiser.step();
    return loss;
  });
  const auto count = static_cast<int64_t>(digits.digits.size());
  const int64_t each_epoch = count / settings.batch, steps = each_epoch * settings.epochs;
  if (each_epoch < 1) throw Error("train: a batch is larger than the data");
  const nn::Rate rate = nn::one_cycle(4e-3, steps);
  std::vector<size_t> order(digits.digits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(settings.seed);
  const auto start = Clock::now();
  auto replays = start;
  for (int64_t i = 0; i < steps; i++) {
    const int64_t in_epoch = i % each_epoch;
    if (in_epoch == 0) mix(order, random);
    if (i == 2) replays = Clock::now();  // the function has run twice; from now on it is replayed
    std::vector<int32_t> which;
    which.reserve(static_cast<size_t>(settings.batch));
    for (int64_t k = 0; k < settings.batch; k++)
      which.push_back(static_cast<int32_t>(order[static_cast<size_t>(in_epoch * settings.batch + k)]));
    optimiser.set_lr(rate(i));
    const Tensor loss = step(Tensor::from(which));
    if (i % 10 == 0 || i + 1 == steps) {
      const double now = loss.item<float>();
      tell({i + 1, steps, now,
            static_cast<double>((i - 1) * settings.batch) / seconds_since(i > 2 ? replays : start)});
    }
  }
  return {step.kernels(), static_cast<double>((steps - 2) * settings.batch) / seconds_since(replays),
          seconds_since(start)};
}

}  // namespace quern::apps
