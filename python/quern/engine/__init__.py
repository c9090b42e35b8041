"""Modules that scripts for tinygrad import from: what they have is elsewhere in quern, too."""
