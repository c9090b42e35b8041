// An expression that is simplified before the eyes of the user.
#pragma once

namespace quern::apps {

void show_rules();

}  // namespace quern::apps
