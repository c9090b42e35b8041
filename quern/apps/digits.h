// The hand-written digits of data/, which are part of the command, and a small network that learns to read
// them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "quern/nn/nn.h"

namespace quern::apps {

struct Digits {
  Tensor images;  // (n, 1, 8, 8), float32 from 0 to 1
  Tensor labels;  // (n), int32
  std::vector<int> digits;
};

struct DigitData {
  Digits training, held_out;  // four fifths and one fifth, mixed
};
DigitData load_digits(uint64_t seed);

// An image as lines of text, brighter where there is more ink.
std::vector<std::string> drawn(const Digits& digits, size_t i);

struct DigitNet {
  nn::Conv2d first{1, 32, 3, {.padding = 1}}, second{32, 32, 3, {.padding = 1}};
  nn::BatchNorm norm{32};
  nn::Conv2d third{32, 64, 3, {.padding = 1}};
  nn::BatchNorm last_norm{64};
  nn::Linear out{64 * 2 * 2, 10};
  QUERN_PARAMETERS(first, second, norm, third, last_norm, out)

  Tensor operator()(const Tensor& x) const;  // scores of the ten digits
};

std::vector<int> predicted(const DigitNet& net, const Digits& digits);
double accuracy(const DigitNet& net, const Digits& digits);

struct TrainingReport {
  int64_t kernels_per_step = 0;  // forward, backward and optimiser
  double images_per_second = 0;  // from the third step on
  double seconds = 0;
};
struct TrainingProgress {
  int64_t step, steps;
  double loss, images_per_second;
};
struct TrainingSettings {
  int64_t epochs = 8, batch = 64;
  uint64_t seed = 1;
};
TrainingReport train(const DigitNet& net, const Digits& digits, const TrainingSettings& settings,
                     const std::function<void(const TrainingProgress&)>& tell);

}  // namespace quern::apps
