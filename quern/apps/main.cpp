// The `quern` command. Its status is 0 if all went well, 1 if what was asked for failed, 2 if the command
// line is wrong.
#include <exception>
#include <iostream>

#include "quern/apps/commands.h"
#include "quern/base/error.h"

int main(int argc, char** argv) {
  CLI::App app{"quern grinds tensor programs into kernels."};
  app.name("quern");
  app.set_version_flag("--version", "quern " QUERN_VERSION, "Print the version.");
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);
  quern::apps::add_ir(app);
  quern::apps::add_demo(app);
  quern::apps::add_env(app);
  quern::apps::add_llm(app);
  try {
    app.parse(argc, argv);
    if (!std::cout.flush()) throw quern::Error("cannot write to standard output");
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const std::exception& e) {
    std::cerr << "quern: " << e.what() << "\n";
    return 1;
  }
  return 0;
}
