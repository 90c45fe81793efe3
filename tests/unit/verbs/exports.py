#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compares what a drop-in library exports, name and version, with exports.txt, and with the
distribution's library where that is installed.

usage: exports.py NM LIBRARY LIST
"""

import glob
import os
import subprocess
import sys

EXIT_FAILED = 1
STOCK = "/usr/lib/*/"
# The distribution's hidden twins: object layouts from before 2007, left out on purpose.
LEFT_OUT_NODES = {"@IBVERBS_1.0"}
LEFT_OUT_NAMES = {"ibv_register_driver@IBVERBS_1.1"}


def exports(nm, library):
    """Names as "name@@version" ("@": not the default version) that the library defines."""
    text = subprocess.run([nm, "--dynamic", "--defined-only", "--with-symbol-versions", library],
                          check=True, capture_output=True, text=True).stdout
    names = set()
    for line in text.splitlines():
        _, kind, name = line.split()
        if kind != "A":  # the versions themselves
            names.add(name)
    return names


def left_out(name):
    version = name[name.index("@"):]
    return version in LEFT_OUT_NODES or name in LEFT_OUT_NAMES


def complain(title, names):
    for name in sorted(names):
        print(f"{title}: {name}")
    return bool(names)


def main():
    nm, library, list_path = sys.argv[1:]
    ours = exports(nm, library)
    with open(list_path, encoding="ascii") as f:
        expected = {line.strip() for line in f if line.strip() and not line.startswith("#")}
    failed = complain("missing", expected - ours)
    failed |= complain("not in the list", ours - expected)
    for stock in glob.glob(STOCK + os.path.basename(library)):
        if os.path.samefile(stock, library):
            continue
        theirs = {name for name in exports(nm, stock) if not left_out(name)}
        failed |= complain(f"missing, but in {stock}", theirs - ours)
    print(f"{len(ours)} names")
    return EXIT_FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(main())
