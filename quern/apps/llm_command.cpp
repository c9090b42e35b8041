// quern run, chat, tokenize, gguf, perplexity, bench: language models.
#include <fmt/format.h>

#include <iostream>

#include "quern/apps/commands.h"

#ifdef QUERN_HAVE_LLM

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <map>
#include <memory>

#include "quern/base/error.h"
#include "quern/base/file.h"
#include "quern/llm/model.h"

namespace quern::apps {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// Whether Ctrl-C was pressed since the last answer began.
std::atomic<bool> interrupted = false;

// While it lives, Ctrl-C only says so.
class CatchInterrupts {
 public:
  CatchInterrupts() {
    interrupted = false;
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = SA_RESTART;  // or a write that it cuts off fails, and std::cout writes nothing more
    sigaction(SIGINT, &action, &before_);
  }
  CatchInterrupts(const CatchInterrupts&) = delete;
  CatchInterrupts& operator=(const CatchInterrupts&) = delete;
  ~CatchInterrupts() { sigaction(SIGINT, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};

struct ModelOptions {
  std::string file;
  int64_t context = 0;
};

struct AnswerOptions {
  llm::GenerateOptions generate;
  bool quiet = false;
};

void add_model(CLI::App& command, ModelOptions& options) {
  command.add_option("FILE", options.file, "the model, a file of GGUF")->required();
  command
      .add_option("-c,--context", options.context,
                  "most tokens of a conversation; 0: those of the model, 4096 at most")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 28));
}

void add_answer(CLI::App& command, AnswerOptions& options) {
  llm::SamplingOptions& s = options.generate.sampling;
  command.add_option("-n,--max-tokens", options.generate.max_tokens, "most tokens of an answer")
      ->capture_default_str();
  command.add_option("-t,--temperature", s.temperature, "0: always the likeliest token")
      ->capture_default_str();
  command.add_option("--top-k", s.top_k, "choose among so many of the likeliest tokens; 0: all")
      ->capture_default_str();
  command.add_option("--top-p", s.top_p, "choose among the fewest that have this probability together")
      ->capture_default_str();
  command.add_option("--min-p", s.min_p, "choose among those with this part of the greatest probability")
      ->capture_default_str();
  command
      .add_option("--typical-p", s.typical_p, "choose among the fewest typical ones with this probability")
      ->capture_default_str();
  command.add_option("--repetition-penalty", s.repetition_penalty, "1: none")->capture_default_str();
  command.add_option("--frequency-penalty", s.frequency_penalty, "for each time that a token occurred")
      ->capture_default_str();
  command.add_option("--presence-penalty", s.presence_penalty, "for tokens that occurred")
      ->capture_default_str();
  command.add_option("--seed", s.seed, "of random numbers: the same one gives the same answer")
      ->capture_default_str();
  command.add_option("--stop", options.generate.stop,
                     "a text that ends an answer; may be given several times");
  command.add_flag("-q,--quiet", options.quiet, "only the answer");
}

llm::Model load(const ModelOptions& options, bool quiet) {
  const auto begin = Clock::now();
  llm::Model model = llm::Model::load(options.file, {.context = options.context});
  if (!quiet) {
    const llm::ModelSizes& s = model.sizes();
    std::cerr << fmt::format(
        "{}: {}, {} layers of {}, {} tokens; a context of {} takes {} MiB; loaded in {:.2f} s\n",
        options.file, s.architecture->name, s.layers, s.width, model.tokenizer().size(), model.context(),
        model.cache_bytes() >> 20, seconds_since(begin));
  }
  return model;
}

bool show(const std::string& text) {
  std::cout << text << std::flush;
  return !interrupted;
}

std::string speed_text(const llm::Generated& g) {
  const auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  };
  std::string text = fmt::format("prompt: {} tokens", g.prompt_tokens);
  if (g.reused_tokens > 0) text += fmt::format(", {} known", g.reused_tokens);
  return text + fmt::format(", {:.1f} tokens/s; answer: {} tokens, {:.1f} tokens/s",
                            rate(g.prompt_tokens - g.reused_tokens, g.prompt_seconds), g.tokens.size(),
                            rate(std::ssize(g.tokens) - 1, g.decode_seconds));
}

std::string text_given(const std::string& text, const std::string& file) {
  if (file.empty()) return text;
  if (file != "-") return read_file(file);
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

// ---- run

void add_run(CLI::App& app) {
  struct Options : ModelOptions, AnswerOptions {
    std::string prompt, prompt_file;
    bool chat = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* run = app.add_subcommand("run", "Let a language model go on with a text.");
  add_model(*run, *o);
  auto* prompt = run->add_option("-p,--prompt", o->prompt, "the text");
  run->add_option("-f,--file", o->prompt_file, "a file with the text, or - for standard input")
      ->excludes(prompt);
  run->add_flag("--chat", o->chat, "the text is a message of a user, put into the model's chat template");
  add_answer(*run, *o);
  run->callback([o] {
    const std::string text = text_given(o->prompt, o->prompt_file);
    if (text.empty()) throw Error("run: there is no prompt: give it by -p TEXT or -f FILE");
    const llm::Model model = load(*o, o->quiet);
    const std::vector<llm::Token> tokens =
        o->chat ? model.chat_prompt({{"user", text}}) : model.tokenizer().encode(text);
    const CatchInterrupts caught;
    if (!o->chat && !o->quiet) std::cout << text << std::flush;
    const llm::Generated answer = model.generate(tokens, o->generate, show);
    std::cout << "\n" << std::flush;
    if (!o->quiet) std::cerr << speed_text(answer) << "\n";
  });
}

// ---- chat

constexpr const char* kHelp =
    "/help           this\n"
    "/clear          begin a new conversation\n"
    "/retry          answer the last message again\n"
    "/system TEXT    begin anew with this system message\n"
    "/seed N, /temperature X, /max N   as the options of the command\n"
    "/history        the conversation so far\n"
    "/exit           leave (also Ctrl-D)\n"
    "Ctrl-C stops an answer. A line that ends in \\ goes on in the next one.\n";

class Chat {
 public:
  Chat(llm::Model model, AnswerOptions options, const std::string& system)
      : model_(std::move(model)), options_(std::move(options)) {
    restart(system);
  }

  void run() {
    if (!options_.quiet)
      std::cerr << "/help lists what can be done; Ctrl-C stops an answer, Ctrl-D leaves.\n";
    for (std::string line; ask(line);) {
      if (line.empty()) continue;
      if (line[0] == '/') {
        if (!command(line)) return;
      } else {
        messages_.push_back({"user", line});
        answer();
      }
    }
    if (terminal_) std::cout << "\n";
  }

 private:
  void restart(const std::string& system) {
    messages_.clear();
    system_ = system;
    if (!system.empty()) messages_.push_back({"system", system});
  }

  // One message of the user: false at the end.
  bool ask(std::string& text) {
    text.clear();
    if (terminal_) std::cout << "> " << std::flush;
    for (std::string line; std::getline(std::cin, line);) {
      if (!line.ends_with('\\')) {
        text += line;
        return true;
      }
      line.back() = '\n';
      text += line;
      if (terminal_) std::cout << ". " << std::flush;
    }
    return !text.empty();
  }

  void answer() {
    const CatchInterrupts caught;
    std::vector<llm::Token> prompt = model_.chat_prompt(messages_);
    // The oldest messages are left out where the context is too small for all of them.
    while (std::ssize(prompt) >= model_.context()) {
      const size_t first = system_.empty() ? 0 : 1;
      if (messages_.size() < first + 2) {
        std::cerr << fmt::format("the message has {} tokens, and the context is of {}\n", prompt.size(),
                                 model_.context());
        messages_.pop_back();
        return;
      }
      messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(first));
      prompt = model_.chat_prompt(messages_);
    }
    const llm::Generated result = model_.generate(prompt, options_.generate, show);
    std::cout << (result.reason == llm::StopReason::interrupted ? " ...\n" : "\n") << std::flush;
    messages_.push_back({"assistant", result.text});
    if (!options_.quiet) std::cerr << speed_text(result) << "\n";
  }

  // False: leave.
  bool command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space),
                      rest = space == std::string::npos ? "" : line.substr(space + 1);
    try {
      if (name == "/exit" || name == "/quit") return false;
      if (name == "/help")
        std::cout << kHelp;
      else if (name == "/clear")
        restart(system_);
      else if (name == "/system")
        restart(rest);
      else if (name == "/seed")
        options_.generate.sampling.seed = std::stoull(rest);
      else if (name == "/temperature")
        options_.generate.sampling.temperature = std::stod(rest);
      else if (name == "/max")
        options_.generate.max_tokens = std::stoll(rest);
      else if (name == "/history")
        for (const llm::ChatMessage& m : messages_) std::cout << m.role << ": " << m.content << "\n";
      else if (name == "/retry")
        retry();
      else
        std::cout << "there is no " << name << ":\n" << kHelp;
    } catch (const std::logic_error&) {  // of std::stod and its like
      std::cout << name << " needs a number\n";
    }
    return true;
  }

  void retry() {
    if (messages_.empty() || messages_.back().role != "assistant") {
      std::cout << "there is no answer yet\n";
      return;
    }
    messages_.pop_back();
    options_.generate.sampling.seed++;
    answer();
  }

  llm::Model model_;
  AnswerOptions options_;
  std::vector<llm::ChatMessage> messages_;
  std::string system_;
  bool terminal_ = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
};

void add_chat(CLI::App& app) {
  struct Options : ModelOptions, AnswerOptions {
    std::string system;
  };
  auto o = std::make_shared<Options>();
  o->generate.max_tokens = 1024;
  CLI::App* chat = app.add_subcommand("chat", "Talk to a language model.");
  add_model(*chat, *o);
  chat->add_option("-s,--system", o->system, "what the model is told first");
  add_answer(*chat, *o);
  chat->callback([o] {
    const llm::Model model = load(*o, o->quiet);
    if (!model.has_chat_template())
      throw Error(fmt::format("{}: it has no chat template: use quern run", o->file));
    Chat(model, *o, o->system).run();
  });
}

// ---- tokenize

void add_tokenize(CLI::App& app) {
  struct Options {
    std::string file, text, text_file;
    bool special = false, no_bos = false, ids = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* tokenize = app.add_subcommand("tokenize", "Show the tokens of a text.");
  tokenize->add_option("FILE", o->file, "the model, or a vocabulary, a file of GGUF")->required();
  auto* text = tokenize->add_option("-p,--prompt", o->text, "the text");
  tokenize->add_option("-f,--file", o->text_file, "a file with the text, or - for standard input")
      ->excludes(text);
  tokenize->add_flag("--special", o->special, "texts of control tokens in it become these tokens");
  tokenize->add_flag("--no-bos", o->no_bos, "without the tokens that begin and end a text");
  tokenize->add_flag("--ids", o->ids, "only the numbers, in a line");
  tokenize->callback([o] {
    const std::string given = text_given(o->text, o->text_file);
    const io::Gguf file = io::gguf_load(o->file);
    const llm::Tokenizer tokenizer((llm::Metadata(file.metadata)));
    const std::vector<llm::Token> tokens =
        tokenizer.encode(given, {.add_special = !o->no_bos, .parse_special = o->special});
    if (o->ids) {
      std::cout << fmt::format("{}\n", fmt::join(tokens, " "));
      return;
    }
    for (const llm::Token token : tokens) {
      std::string shown;
      for (const char c : tokenizer.bytes(token, true)) {
        if (c == '\n')
          shown += "\\n";
        else if (c == '\\')
          shown += "\\\\";
        else if (static_cast<uint8_t>(c) < 0x20)
          shown += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
        else
          shown += c;
      }
      std::cout << fmt::format("{:>8}  '{}'\n", token, llm::valid_utf8(shown));
    }
    std::cout << fmt::format("{} tokens\n", tokens.size());
  });
}

// ---- gguf

std::string value_text(const io::GgufValue& value) {
  static constexpr size_t kShown = 6, kMostText = 100;
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          std::string text = llm::valid_utf8(v);
          const bool is_long = text.size() > kMostText;
          if (is_long) text = llm::valid_utf8(text.substr(0, kMostText));
          std::string line;
          for (const char c : text) line += c == '\n' ? std::string("\\n") : std::string(1, c);
          return fmt::format("'{}'{}", line, is_long ? fmt::format("... ({} bytes)", v.size()) : "");
        } else if constexpr (std::is_same_v<T, std::vector<io::GgufValue>>) {
          std::string text = fmt::format("[{}]:", v.size());
          for (size_t i = 0; i < std::min(v.size(), kShown); i++) text += " " + value_text(v[i]);
          return v.size() > kShown ? text + " ..." : text;
        } else {
          return fmt::format("{}", v);
        }
      },
      value.value);
}

void add_gguf(CLI::App& app) {
  auto file = std::make_shared<std::string>();
  auto tensors = std::make_shared<bool>(false);
  CLI::App* gguf = app.add_subcommand("gguf", "Show what is in a file of GGUF.");
  gguf->add_option("FILE", *file, "the file")->required();
  gguf->add_flag("--tensors", *tensors, "each tensor, too");
  gguf->callback([file, tensors] {
    const io::Gguf content = io::gguf_load(*file);
    size_t widest = 0;
    for (const auto& [key, value] : content.metadata) widest = std::max(widest, key.size());
    for (const auto& [key, value] : content.metadata)
      std::cout << fmt::format("{:<{}}  {}\n", key, widest, value_text(value));
    int64_t numbers = 0;
    for (const auto& [name, tensor] : content.tensors) {
      numbers += tensor.numel().value();
      if (*tensors)
        std::cout << fmt::format("{:<40} {:<10} {}\n", name, tensor.dtype().name(),
                                 shape_text(tensor.shape()));
    }
    std::cout << fmt::format("{} tensors with {} numbers\n", content.tensors.size(), numbers);
  });
}

// ---- perplexity

void add_perplexity(CLI::App& app) {
  struct Options : ModelOptions {
    std::string text;
  };
  auto o = std::make_shared<Options>();
  CLI::App* perplexity =
      app.add_subcommand("perplexity", "Measure how well a language model foresees a text.");
  add_model(*perplexity, *o);
  perplexity->add_option("TEXT", o->text, "a file with the text")->required();
  perplexity->callback([o] {
    const std::string text = read_file(o->text);
    const llm::Model model = load(*o, false);
    const std::vector<llm::Token> tokens = model.tokenizer().encode(text);
    if (tokens.size() < 2) throw Error(fmt::format("{}: {} tokens; two are needed", o->text, tokens.size()));
    double sum = 0;
    int64_t count = 0;
    const auto begin = Clock::now();
    // Each window is foreseen from its own beginning on.
    for (size_t at = 0; at + 1 < tokens.size(); at += static_cast<size_t>(model.context())) {
      const size_t size = std::min(tokens.size() - at, static_cast<size_t>(model.context()));
      if (size < 2) break;
      const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(at);
      for (const float value : model.log_probabilities({first, first + static_cast<std::ptrdiff_t>(size)}))
        sum += value;
      count += static_cast<int64_t>(size) - 1;
      std::cerr << fmt::format("{} of {} tokens: {:.4f}\n", count, tokens.size(),
                               std::exp(-sum / static_cast<double>(count)));
    }
    std::cout << fmt::format("perplexity {:.4f} of {} tokens, {:.1f} tokens/s\n",
                             std::exp(-sum / static_cast<double>(count)), count,
                             static_cast<double>(count) / seconds_since(begin));
  });
}

// ---- bench

void add_bench(CLI::App& app) {
  struct Options : ModelOptions {
    int64_t prompt = 512, tokens = 64, repeats = 3;
  };
  auto o = std::make_shared<Options>();
  CLI::App* bench = app.add_subcommand("bench", "Measure how fast a language model is.");
  add_model(*bench, *o);
  bench->add_option("-p,--prompt", o->prompt, "tokens of the prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  bench->add_option("-n,--tokens", o->tokens, "tokens that are decoded")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  bench->add_option("-r,--repeats", o->repeats, "the fastest of so many counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  bench->callback([o] {
    const llm::Model model = load(*o, false);
    if (o->prompt + o->tokens > model.context())
      throw Error(fmt::format("{} and {} tokens do not fit into a context of {}: ask for a larger one by -c",
                              o->prompt, o->tokens, model.context()));
    std::vector<llm::Token> prompt;
    for (int64_t i = 0; i < o->prompt; i++)
      prompt.push_back(
          static_cast<llm::Token>((i * 7919 + 100) % static_cast<int64_t>(model.tokenizer().size())));
    llm::GenerateOptions options{.max_tokens = o->tokens + 1, .ignore_end = true};
    options.sampling.temperature = 0;
    double best_prompt = 0, best_decode = 0;
    for (int64_t i = 0; i < o->repeats + 2; i++) {  // the first two make and record kernels
      model.forget();
      const llm::Generated g = model.generate(prompt, options);
      const double prompt_rate = static_cast<double>(o->prompt) / g.prompt_seconds,
                   decode_rate = static_cast<double>(o->tokens) / g.decode_seconds;
      std::cerr << fmt::format("{}: prompt {:.1f} tokens/s, decode {:.1f} tokens/s\n",
                               i < 2 ? "warm-up" : "measured", prompt_rate, decode_rate);
      if (i < 2) continue;
      best_prompt = std::max(best_prompt, prompt_rate);
      best_decode = std::max(best_decode, decode_rate);
    }
    std::cout << fmt::format(
        "prompt of {}: {:.1f} tokens/s\ndecode of {}: {:.1f} tokens/s, {} kernels a token\n", o->prompt,
        best_prompt, o->tokens, best_decode, model.kernels_of_a_step());
  });
}

}  // namespace

void add_llm(CLI::App& app) {
  add_run(app);
  add_chat(app);
  add_tokenize(app);
  add_gguf(app);
  add_perplexity(app);
  add_bench(app);
}

}  // namespace quern::apps

#else

namespace quern::apps {

void add_llm(CLI::App&) {}

}  // namespace quern::apps

#endif
