#pragma once

namespace quern::python {

// Python's forks wait until nothing is computed: the child has none of the threads that would go on with it.
void bind_forks();

}  // namespace quern::python
