// quern env: the environment variables that quern reads.
#include <iostream>

#include "quern/apps/commands.h"
#include "quern/base/env.h"

namespace quern::apps {

void add_env(CLI::App& app) {
  app.add_subcommand("env", "List the environment variables.")->callback([] { std::cout << env::table(); });
}

}  // namespace quern::apps
