// The functions of OpenCL, from the loader that is found when a device is first opened.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>

namespace quern::cl {

#define QUERN_CL_FUNCTIONS(X)  \
  X(clGetPlatformIDs)          \
  X(clGetDeviceIDs)            \
  X(clGetDeviceInfo)           \
  X(clCreateContext)           \
  X(clCreateCommandQueue)      \
  X(clCreateBuffer)            \
  X(clReleaseMemObject)        \
  X(clEnqueueReadBuffer)       \
  X(clEnqueueWriteBuffer)      \
  X(clCreateProgramWithSource) \
  X(clBuildProgram)            \
  X(clGetProgramBuildInfo)     \
  X(clReleaseProgram)          \
  X(clCreateKernel)            \
  X(clReleaseKernel)           \
  X(clGetKernelWorkGroupInfo)  \
  X(clSetKernelArg)            \
  X(clEnqueueNDRangeKernel)    \
  X(clFlush)                   \
  X(clFinish)

struct Api {
#define X(name) decltype(&::name) name = nullptr;
  QUERN_CL_FUNCTIONS(X)
#undef X
};

// A DeviceError that says what to install if there is no loader, or that it is lost.
const Api& api();
bool is_lost();  // a fork left the threads of the driver behind

std::string error_text(cl_int code);  // "CL_OUT_OF_RESOURCES (-5)"

// A DeviceError unless the code is CL_SUCCESS.
void check_status(cl_int code, const char* what);

}  // namespace quern::cl
