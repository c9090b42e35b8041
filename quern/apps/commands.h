// The parts of the `quern` command. Each adds its subcommand and options to the app.
#pragma once

#include <CLI/CLI.hpp>

namespace quern::apps {

void add_ir(CLI::App& app);  // quern ir FILE: print, simplify or check IR text
void add_demo(
    CLI::App& app);  // quern demo: a network is trained; quern demo rules: an expression is simplified
void add_env(CLI::App& app);  // quern env: the environment variables
void add_llm(CLI::App& app);  // quern run, chat, tokenize, gguf, perplexity, bench: language models

}  // namespace quern::apps
