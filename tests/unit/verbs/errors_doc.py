#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares the table of docs/errors.md with the error matrix that is tried.

usage: errors_doc.py ERROR_MATRIX DOCUMENT [--write]
"""

import pathlib
import subprocess
import sys

BEGIN = "<!-- error matrix: begin -->\n"
END = "<!-- error matrix: end -->"


def main():
    program, document = sys.argv[1], pathlib.Path(sys.argv[2])
    table = subprocess.run([program, "--table"], check=True, capture_output=True, text=True).stdout
    before, _, rest = document.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    if shown == table:
        return 0
    if sys.argv[3:] == ["--write"]:
        document.write_text(before + BEGIN + table + END + after, encoding="utf-8")
        return 0
    print("%s does not show what is tried: %s %s %s --write" %
          (document, sys.argv[0], program, document), file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
