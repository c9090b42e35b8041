#include "quern/runtime/cpu/llvm_module.h"

#include <cstring>

#include "quern/base/codegen_version.h"
#include "quern/base/error.h"
#include "quern/runtime/cpu/compile.h"
#include "quern/runtime/cpu/disassemble.h"

namespace {

const quern::cpu::CoreFunctions* core = nullptr;

}  // namespace

// What the sources of the module call of the core. What concerns values alone (dtypes, args, constants) is
// compiled into both.
namespace quern {

void detail::destroy(Node* node) noexcept { core->destroy(node); }
Bounds UOp::bounds() const { return core->bounds(*this); }
std::string LinearProgram::text() const { return core->text(*this); }
const UOp& storage_of(const UOp& pointer) { return core->storage_of(pointer); }
const UOp& index_of_address(const UOp& address) { return core->index_of_address(address); }
std::unordered_map<UOp, UOps> rare_parts(const LinearProgram& program) { return core->rare_parts(program); }

namespace cpu {

const Host& host() { return core->host(); }

namespace {

template <class F>
Outcome outcome_of(const F& function) {
  try {
    return {Outcome::Kind::good, function()};
  } catch (const InternalError& e) {
    return {Outcome::Kind::internal_error, e.what()};
  } catch (const Error& e) {
    return {Outcome::Kind::error, e.what()};
  } catch (const std::exception& e) {
    return {Outcome::Kind::internal_error, e.what()};
  }
}

constexpr LlvmFunctions kFunctions = {
    .compile =
        [](const LinearProgram& program, bool no_alias, Code& code) {
          return outcome_of([&] {
            code = compile(program, no_alias);
            return std::string();
          });
        },
    .assembly_for =
        [](const LinearProgram& program, const std::string& triple, const std::string& processor) {
          return outcome_of([&] { return assembly_for(program, triple, processor); });
        },
    .llvm_text = [](const LinearProgram& program,
                    bool optimised) { return outcome_of([&] { return llvm_text(program, optimised); }); },
    .disassembly = [](const Code& code) { return outcome_of([&] { return disassembly(code); }); },
};

}  // namespace
}  // namespace cpu
}  // namespace quern

extern "C" const quern::cpu::LlvmFunctions* quern_open_llvm(const quern::cpu::CoreFunctions* functions) {
  if (std::strcmp(functions->version, quern::kCodegenVersion) != 0) return nullptr;
  core = functions;
  return &quern::cpu::kFunctions;
}
