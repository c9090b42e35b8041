// Errors. A user's mistake is an exception of kind quern::Error whose text says what was given, what was
// expected and where. Our own mistakes are caught by QUERN_CHECK, which blames the compiler.
#pragma once

#include <stdexcept>
#include <string>

namespace quern {

// The base of everything that quern throws because of what a user passed in.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A dtype that does not fit: an out-of-range constant, a vector of no lanes, operands of different types.
class DTypeError : public Error {
 public:
  using Error::Error;
};

// A shape that does not fit: a negative size, a reshape that changes the number of elements.
class ShapeError : public Error {
 public:
  using Error::Error;
};

// An axis that a shape does not have. In Python it is an IndexError, too.
class AxisError : public ShapeError {
 public:
  using ShapeError::ShapeError;
};

// An argument with a value that it cannot have: a probability of 1.5, a window of no size.
class ValueError : public Error {
 public:
  using Error::Error;
};

// A device that there is not, that cannot be opened, or that cannot do what it was asked for.
class DeviceError : public Error {
 public:
  using Error::Error;
};

// An index out of bounds, or of a kind that cannot index.
class IndexError : public Error {
 public:
  using Error::Error;
};

// Memory that there is not: what was asked for is more than a device, or this process, can have.
class MemoryError : public Error {
 public:
  using Error::Error;
};

// Text that is not IR. `line` and `column` count from 1.
class ParseError : public Error {
 public:
  ParseError(int at_line, int at_column, const std::string& reason)
      : Error(std::to_string(at_line) + ":" + std::to_string(at_column) + ": " + reason),
        line(at_line),
        column(at_column) {}
  int line, column;
};

// A graph that breaks a rule of its level (see spec.h).
class SpecError : public Error {
 public:
  using Error::Error;
};

// Rewrite rules that never come to rest, or that were called with the wrong context.
class RewriteError : public Error {
 public:
  using Error::Error;
};

// A mistake of quern itself, which QUERN_CHECK found. Please report it, with the text. Who catches an Error
// to go on without what was asked for lets this one through.
class InternalError : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& detail);

}  // namespace quern

// Blames the compiler, not the user. `detail` is evaluated only on failure.
#define QUERN_CHECK(condition, detail)                                                    \
  do {                                                                                    \
    if (const bool quern_holds = static_cast<bool>(condition); !quern_holds) [[unlikely]] \
      ::quern::check_failed(#condition, __FILE__, __LINE__, (detail));                    \
  } while (false)
