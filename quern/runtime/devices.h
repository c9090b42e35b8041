// How each kind of device is opened. `name` is the whole name, `detail` what stands behind the colon, if
// anything.
#pragma once

#include "quern/runtime/device.h"

namespace quern {

std::unique_ptr<Device> open_interp(const std::string& name, const std::string& detail);
std::unique_ptr<Device> open_linear(const std::string& name, const std::string& detail);
std::unique_ptr<Device> open_cpu(const std::string& name, const std::string& detail);  // if built with LLVM
std::unique_ptr<Device> open_cl(const std::string& name, const std::string& detail);   // if built with OpenCL
std::unique_ptr<Device> open_null(const std::string& name, const std::string& detail);
std::unique_ptr<Device> open_disk(const std::string& name, const std::string& detail);

}  // namespace quern
