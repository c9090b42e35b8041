// The rules that z3 is known not to prove, in the file test/ir/unproved.txt: it may only become shorter.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace quern {

// Of a list of rules. A line of the file is "list: rule".
inline std::set<std::string> known_unproved(const std::string& list) {
  std::ifstream file("test/ir/unproved.txt");
  EXPECT_TRUE(file.is_open()) << "test/ir/unproved.txt is not there: run from the root of the repository";
  std::set<std::string> known;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(list + ": ")) known.insert(line.substr(list.size() + 2));
  return known;
}

inline void expect_unproved(const std::string& list, const std::vector<std::string>& unproved) {
  const std::set<std::string> known = known_unproved(list), found(unproved.begin(), unproved.end());
  for (const std::string& rule : found)
    EXPECT_TRUE(known.contains(rule))
        << "z3 does not prove this rule, and test/ir/unproved.txt does not have it:\n"
        << list << ": " << rule;
  for (const std::string& rule : known)
    EXPECT_TRUE(found.contains(rule))
        << "z3 proves this rule, or it is gone: take it out of test/ir/unproved.txt:\n"
        << list << ": " << rule;
}

}  // namespace quern
