"""coverage.py SUMMARY [FOLDER=PERCENT]...: line coverage by folder, from gcovr's JSON summary.

Fails if a folder named on the command line has less than its percentage, or nothing was measured in it.
"""

import json
import sys
from collections import defaultdict


def by_folder(summary):
    lines = defaultdict(lambda: [0, 0])
    for file in summary["files"]:
        folder = file["filename"].rpartition("/")[0]
        lines[folder][0] += file["line_covered"]
        lines[folder][1] += file["line_total"]
    return {folder: (covered, total) for folder, (covered, total) in sorted(lines.items()) if total}


def main(path, *least):
    with open(path, encoding="utf-8") as file:
        summary = json.load(file)
    for file in sorted(summary["files"], key=lambda file: file["line_percent"] or 0):
        if file["line_total"]:
            print(f'  {file["filename"]:<40} {file["line_covered"]:>6} of {file["line_total"]:>6} lines '
                  f'{file["line_percent"]:>6.1f}%')
    print()
    folders = by_folder(summary)
    for folder, (covered, total) in folders.items():
        print(f"  {folder:<40} {covered:>6} of {total:>6} lines {100 * covered / total:>6.1f}%")
    for folder, percent in (limit.split("=") for limit in least):
        covered, total = folders.get(folder, (0, 0))
        if not total or 100 * covered < float(percent) * total:
            print(f"coverage: {folder} has {covered} of {total} lines covered, at least {percent}% are asked for")
            return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
