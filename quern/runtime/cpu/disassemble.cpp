#include "quern/runtime/cpu/disassemble.h"

#include <fmt/format.h>
#include <llvm/MC/MCAsmInfo.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCDisassembler/MCDisassembler.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstPrinter.h>
#include <llvm/MC/MCInstrInfo.h>
#include <llvm/MC/MCRegisterInfo.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/MCTargetOptions.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include <set>

#include "quern/runtime/cpu/llvm_error.h"

namespace quern::cpu {
namespace {

struct Machine {
  Machine() {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetDisassembler();
    const llvm::Triple triple(llvm::sys::getProcessTriple());
    std::string problem, features;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple.str(), problem);
    QUERN_CHECK(target != nullptr, problem);
    for (const auto& feature : llvm::sys::getHostCPUFeatures())
      features += (feature.getValue() ? "+" : "-") + feature.getKey().str() + ",";
    registers.reset(target->createMCRegInfo(triple.str()));
    const llvm::MCTargetOptions options;
    assembler.reset(target->createMCAsmInfo(*registers, triple.str(), options));
    instructions.reset(target->createMCInstrInfo());
    processor.reset(target->createMCSubtargetInfo(triple.str(), llvm::sys::getHostCPUName(), features));
    context = std::make_unique<llvm::MCContext>(triple, assembler.get(), registers.get(), processor.get());
    reader.reset(target->createMCDisassembler(*processor, *context));
    printer.reset(
        target->createMCInstPrinter(triple, triple.isX86() ? 1 : 0, *assembler, *instructions, *registers));
    printer->setPrintImmHex(false);
  }
  std::unique_ptr<llvm::MCRegisterInfo> registers;
  std::unique_ptr<llvm::MCAsmInfo> assembler;
  std::unique_ptr<llvm::MCInstrInfo> instructions;
  std::unique_ptr<llvm::MCSubtargetInfo> processor;
  std::unique_ptr<llvm::MCContext> context;
  std::unique_ptr<llvm::MCDisassembler> reader;
  std::unique_ptr<llvm::MCInstPrinter> printer;
};

// What is told of a kernel in one line.
class Summary {
 public:
  explicit Summary(const Machine& machine) : machine_(machine) {}

  void add(const llvm::MCInst& instruction) {
    count_++;
    bool on_stack = false;
    for (const llvm::MCOperand& operand : instruction) {
      if (!operand.isReg() || operand.getReg() == 0) continue;
      const std::string name = whole_register(operand.getReg());
      on_stack |= name == "RSP" || name == "SP";
      const bool vector = name.starts_with("ZMM") || name.starts_with("Z") || name.starts_with("Q");
      if (name != "RIP" && name != "RSP" && name != "SP" && !name.starts_with("K"))
        (vector ? vectors_ : others_).insert(name);
    }
    const llvm::MCInstrDesc& what = machine_.instructions->get(instruction.getOpcode());
    if (on_stack && what.mayStore()) stores_++;
    if (on_stack && what.mayLoad()) loads_++;
  }
  std::string text() const {
    return fmt::format("{} instructions, {} vector and {} general registers, spills: {} stores and {} loads",
                       count_, vectors_.size(), others_.size(), stores_, loads_);
  }

 private:
  std::string whole_register(llvm::MCRegister r) const {
    llvm::MCRegister largest = r;
    for (const auto super : machine_.registers->superregs(r)) largest = super;
    return machine_.registers->getName(largest);
  }
  const Machine& machine_;
  size_t count_ = 0, stores_ = 0, loads_ = 0;
  std::set<std::string> vectors_, others_;
};

}  // namespace

std::string disassembly(const Code& code) {
  const Machine machine;
  const auto object = value_or_throw(llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(llvm::StringRef(code.object), code.name)));
  std::string lines;
  Summary summary(machine);
  for (const llvm::object::SectionRef& section : object->sections()) {
    if (!section.isText()) continue;
    const llvm::StringRef bytes = value_or_throw(section.getContents());
    const llvm::ArrayRef<uint8_t> all(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    for (uint64_t at = 0, size = 0; at < all.size(); at += std::max<uint64_t>(1, size)) {
      llvm::MCInst instruction;
      if (machine.reader->getInstruction(instruction, size, all.slice(at), at, llvm::nulls()) !=
          llvm::MCDisassembler::Success) {
        lines += fmt::format("  {:6x}  (not an instruction)\n", at);
        continue;
      }
      std::string text;
      llvm::raw_string_ostream out(text);
      machine.printer->printInst(&instruction, at, "", *machine.processor, out);
      for (char& c : text) c = c == '\t' ? ' ' : c;
      lines += fmt::format("  {:6x} {}\n", at, text);
      summary.add(instruction);
    }
  }
  return fmt::format("code {}: {}\n{}", code.name, summary.text(), lines);
}

}  // namespace quern::cpu
