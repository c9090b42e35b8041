// Whether a model is being trained: dropout and the statistics of batches ask. Of each thread by itself.
#pragma once

namespace quern {

bool is_training();

// const Training on;  from here to the end of the block.
class Training {
 public:
  explicit Training(bool on = true);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

 private:
  bool before_;
};

}  // namespace quern
