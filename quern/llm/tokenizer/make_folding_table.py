"""Writes folding_table.cpp: for each character the letters in lower case that are left when it is decomposed (NFD) and its
nonspacing marks are dropped, where that is another text. Hangul is left out: its decomposition is arithmetic."""

import pathlib
import unicodedata


def folded(character):
    letters = [c for c in unicodedata.normalize("NFD", character) if unicodedata.category(c) != "Mn"]
    return "".join(c for c in "".join(letters).lower() if unicodedata.category(c) != "Mn")


def wanted(code):
    return not (0xAC00 <= code <= 0xD7A3 or 0xD800 <= code < 0xE000 or unicodedata.category(chr(code)) == "Mn")


single, several = {}, {}
for code in filter(wanted, range(0x110000)):
    letters = folded(chr(code))
    if len(letters) == 1 and letters != chr(code):
        single[code] = ord(letters)
    elif len(letters) > 1:
        several[code] = letters

runs, codes = [], sorted(single)
while codes:
    first = codes[0]
    best = []
    for step in (1, 2):
        run = [first]
        while True:
            code = run[-1] + step
            if single.get(code, -1) - single[first] != code - first or (step == 2 and code - 1 in single):
                break
            run.append(code)
        best = max(best, (len(run), step), key=lambda found: found[0]) if best else (len(run), step)
    length, step = best
    runs.append((first, length, step, single[first]))
    gone = {first + step * i for i in range(length)}
    codes = [code for code in codes if code not in gone]


def rows(items):
    line = "   "
    for item in items:
        if len(line) + len(item) > 108:
            yield line
            line = "   "
        line += " " + item
    yield line


text = f'''// Made by make_folding_table.py from Unicode {unicodedata.unidata_version}.
#include "quern/llm/tokenizer/folding.h"

namespace quern::llm {{

// clang-format off
const std::array<FoldedRun, kFoldedRuns> folded_runs = {{{{
{chr(10).join(rows(f"{{{a:#x},{n},{s},{t:#x}}}," for a, n, s, t in runs))}
}}}};
const std::array<FoldedText, kFoldedTexts> folded_texts = {{{{
{chr(10).join(rows('{%#x,U"%s"},' % (code, "".join(f"{chr(92)}U{ord(c):08x}" for c in letters)) for code, letters in several.items()))}
}}}};
// clang-format on

}}  // namespace quern::llm
'''
pathlib.Path(__file__).with_name("folding_table.cpp").write_text(text, encoding="ascii")
print(len(runs), "runs,", len(several), "texts: the numbers in folding.h")
