# SPDX-License-Identifier: BSD-2-Clause
"""What the cases of a test came to, left in the build folder for docs/compatibility.md."""
import json
import pathlib
import sys


def folder(build):
    return pathlib.Path(build) / "facts"


def note(build, test, results):
    """Leaves {case: passed} of a test, instead of what an earlier run left."""
    folder(build).mkdir(exist_ok=True)
    (folder(build) / (test + ".json")).write_text(json.dumps(results, indent=1), encoding="utf-8")


def read(build):
    """{(test, case): passed}"""
    return {(path.stem, case): passed for path in folder(build).glob("*.json")
            for case, passed in json.loads(path.read_text(encoding="utf-8")).items()}


if __name__ == "__main__":
    sys.exit("this is a part of compatibility.py")
