// quern demo: a small network learns to read digits, is saved, loaded again, and reads some.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "quern/apps/commands.h"
#include "quern/apps/digits.h"
#include "quern/apps/rules_demo.h"
#include "quern/base/error.h"
#include "quern/io/safetensors.h"

namespace quern::apps {
namespace {

std::string bar(int64_t done, int64_t all) {
  constexpr int64_t kWidth = 30;
  const int64_t full = kWidth * done / all;
  std::string text;
  for (int64_t i = 0; i < kWidth; i++) text += i < full ? "\u2588" : "\u2591";
  return text;
}

// A bar that moves on a terminal; elsewhere ten lines.
void show(const TrainingProgress& p) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  const bool last = p.step == p.steps;
  if (!terminal && !last && (p.step - 1) * 10 / p.steps == (p.step - 11) * 10 / p.steps) return;
  std::cout << fmt::format("{}  {} {:4}/{}   loss {:.4f}   {:6.0f} images/s{}", terminal ? "\r" : "",
                           bar(p.step, p.steps), p.step, p.steps, p.loss, p.images_per_second,
                           terminal && !last ? "" : "\n")
            << std::flush;
}

// Some images side by side, with what they were read as below.
void show_reading(const DigitNet& net, const Digits& digits, size_t count) {
  const std::vector<int> got = predicted(net, digits);
  std::vector<std::string> lines(8);
  std::string below;
  for (size_t i = 0; i < count; i++) {
    const std::vector<std::string> picture = drawn(digits, i);
    for (size_t k = 0; k < lines.size(); k++) lines[k] += "  " + picture[k];
    below += fmt::format("  {:<16}", got[i] == digits.digits[i]
                                         ? fmt::format("is a {}", got[i])
                                         : fmt::format("is a {}, read {}", digits.digits[i], got[i]));
  }
  for (const std::string& line : lines) std::cout << line << "\n";
  std::cout << below << "\n";
}

struct DemoSettings {
  TrainingSettings training;
  std::string save = (std::filesystem::temp_directory_path() / "quern-digits.safetensors").string();
};

void run(const DemoSettings& settings) {
  Tensor::manual_seed(settings.training.seed);
  const DigitData data = load_digits(settings.training.seed);
  const DigitNet net;
  int64_t parameters = 0;
  for (const Tensor& p : nn::get_parameters(net))
    if (!p.refuses_grad()) parameters += p.numel().value();
  std::cout
      << fmt::format(
             "{} images of hand-written digits to learn from, {} kept aside; a network with {} parameters.\n",
             data.training.digits.size(), data.held_out.digits.size(), parameters)
      << std::flush;
  const TrainingReport report = train(net, data.training, settings.training, show);
  std::cout << fmt::format(
                   "A training step, forward, backward and Adam, is {} kernels. {:.1f} s in all, {:.0f} "
                   "images/s.\n",
                   report.kernels_per_step, report.seconds, report.images_per_second)
            << std::flush;
  std::cout << fmt::format("Of the images kept aside it reads {:.1f}% right.\n\n",
                           100 * accuracy(net, data.held_out))
            << std::flush;
  io::safe_save(nn::get_state_dict(net), settings.save);
  const DigitNet loaded;
  nn::load_state_dict(loaded, io::safe_load(settings.save));
  std::cout << fmt::format("Saved as {}, loaded again, and given some of them:\n\n", settings.save)
            << std::flush;
  show_reading(loaded, data.held_out, 5);
}

}  // namespace

void add_demo(CLI::App& app) {
  CLI::App* demo =
      app.add_subcommand("demo", "Train a small network to read digits, save it, load it and use it.");
  const auto settings = std::make_shared<DemoSettings>();
  demo->add_option("--epochs", settings->training.epochs, "How often all images are seen.")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  demo->add_option("--seed", settings->training.seed, "Of weights and of the order of images.")
      ->capture_default_str();
  demo->add_option("--save", settings->save, "The file that the network is saved to.")->capture_default_str();
  demo->add_subcommand("rules", "Show an expression being simplified step by step.")->callback([] {
    show_rules();
  });
  demo->callback([demo, settings] {
    if (demo->get_subcommands().empty()) run(*settings);
  });
}

}  // namespace quern::apps
