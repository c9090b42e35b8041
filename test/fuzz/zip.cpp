// Archives. Checksums are not looked at, or few changes would come through.
#include "quern/io/zip.h"

#include "test/fuzz/target.h"

FUZZ(for (const ZipEntry& entry : zip_entries(bytes, name)) {
  try {
    (void)crc32_of(unpacked(entry, name, keep, false).bytes);
  } catch (const quern::Error&) {  // NOLINT(bugprone-empty-catch)
  }
})
