#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The judge of the pyverbs suite, judged: a made-up suite whose tests end in every bad way."""
import json
import pathlib
import subprocess
import sys
import tempfile

SUITE = '''
import multiprocessing, os, signal, sys, time, unittest

def die():
    os.kill(os.getpid(), signal.SIGSEGV)

class Endings(unittest.TestCase):
    def child(self, target):
        process = multiprocessing.Process(target=target)
        process.start()
        return process

    def test_passes(self):
        pass
    def test_skips(self):
        self.skipTest("no such adapter")
    def test_fails(self):
        self.fail("wrong")
    def test_raises(self):
        raise OSError("broken")
    def test_dies(self):
        die()
    def test_dies_at_exit(self):
        import atexit
        atexit.register(die)
    def test_exits(self):
        os._exit(3)
    def test_hangs(self):
        time.sleep(60)
    def test_child_dies(self):
        self.child(die).join()
    def test_child_raises(self):
        self.child(lambda: 1 / 0).join()
    def test_child_skips(self):
        self.child(lambda: sys.exit(5)).join()
    def test_child_is_ended(self):
        process = self.child(lambda: time.sleep(60))
        process.terminate()
        process.join()
'''

EXPECTED = {
    "passes": ("ok", ""),
    "skips": ("skip", "no such adapter"),
    "fails": ("fail", "AssertionError: wrong"),
    "raises": ("fail", "OSError: broken"),
    "dies": ("crash", "SIGSEGV"),
    "dies_at_exit": ("crash", "SIGSEGV"),
    "exits": ("fail", "status 3"),
    "hangs": ("hang", "2 s"),
    "child_dies": ("fail", "SIGSEGV"),
    "child_raises": ("fail", "status 1"),
    "child_skips": ("ok", ""),
    "child_is_ended": ("ok", ""),
    "is_not_there": ("fail", "no such test"),
}


def main():
    judge = pathlib.Path(__file__).with_name("judge.py")
    with tempfile.TemporaryDirectory() as folder:
        package = pathlib.Path(folder) / "tests"
        package.mkdir()
        (package / "test_fork.py").write_text(SUITE)
        (package / "__init__.py").write_text(
            "import tests.test_fork\n__test_modules__ = [tests.test_fork]\n")
        (package / "args_parser.py").write_text(
            "class parser:\n    def parse_args():\n        pass\n")
        names = {"test_fork.Endings.test_" + name: row for name, row in EXPECTED.items()}
        done = subprocess.run([sys.executable, judge, folder, "none", "2"], text=True,
                              input="".join(name + "\n" for name in names), check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    faults = 0
    if set(lines[0]) != set(names) - {"test_fork.Endings.test_is_not_there"}:
        faults += 1
        print("FAILED   the list of tests is %s" % lines[0])
    for result in lines[1:]:
        outcome, words = names.pop(result["name"])
        good = result["outcome"] == outcome and words in result["text"]
        faults += not good
        print("%-8s %s" % ("ok" if good else "FAILED", result["name"]))
        if not good:
            print("    expected %s '%s', got %s" % (outcome, words, result))
    if names:
        faults += 1
        print("FAILED   no word about %s" % sorted(names))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
