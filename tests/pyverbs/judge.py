# SPDX-License-Identifier: BSD-2-Clause
"""Runs tests of the pyverbs suite, each in a process of its own, inside `uroce run`.

usage: judge.py FOLDER DEVICE SECONDS [--impatient]
FOLDER holds the package `tests`. Names of tests come on standard input, one a line (behind a name may
stand a blank and a limit in seconds of its own), and for each leaves one line of JSON: name, outcome (ok, skip, fail, crash, hang), text, seconds. Without a name
to run it has told first which tests there are, as a list.

The modules are loaded once; each test runs in a fork of that, which has opened no device yet, and
ends as any program does, so that a crash at exit counts as well.
"""
import io
import json
import multiprocessing.popen_fork
import os
import select
import signal
import sys
import time
import unittest

# Files whose tests need no adapter of a certain make. Of the other files only TimeStampTest does.
GENERIC = ("addr atomic cq cq_events cqex cuda_dmabuf device flow fork mr odp parent_domain pd qp "
           "qpex rdmacm relaxed_ordering rss_traffic shared_pd tag_matching").split()
OF_OTHERS = ("test_mlx5_timestamp.TimeStampTest",)

CHILD_SKIPPED = 5  # how a child of the suite's tells its parent to skip

dead_children = []


class WatchedChild(multiprocessing.popen_fork.Popen):
    """The suite takes a child that died of a signal for a good one, and some it never asks."""

    ended_by_us = noted = False

    def terminate(self):
        self.ended_by_us = True
        super().terminate()

    def kill(self):
        self.ended_by_us = True
        super().kill()

    def poll(self, flag=os.WNOHANG):
        status = super().poll(flag)
        if status not in (None, 0, CHILD_SKIPPED) and not self.ended_by_us and not self.noted:
            self.noted = True
            dead_children.append("child process %d ended with %s" % (
                self.pid, signal.Signals(-status).name if status < 0 else "status %d" % status))
        return status


def all_tests(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from all_tests(item)
        else:
            yield item


def load(folder, device, impatient):
    """Returns the tests by name, without the package's."""
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    # The package takes `args_parser` from the path, and loads each file of its folder.
    sys.path[:0] = [folder + "/tests", folder]
    sys.argv = ["judge", "--dev", device]
    import args_parser
    args_parser.parser.parse_args()
    import tests
    if impatient:
        import tests.utils
        tests.utils.POLL_CQ_TIMEOUT = 2
    wanted = tuple("test_%s." % name for name in GENERIC) + OF_OTHERS
    found = {}
    for module in tests.__test_modules__:
        for test in all_tests(unittest.defaultTestLoader.loadTestsFromModule(module)):
            name = test.id().removeprefix("tests.")
            if name.startswith(wanted):
                found[name] = test
    return found


def run_here(test):
    """Runs it in this process. Returns (outcome, text)."""
    multiprocessing.context.ForkProcess._Popen = staticmethod(WatchedChild)
    result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(test)
    wrong = [text for _, text in result.errors + result.failures] + dead_children
    if wrong:
        return "fail", "\n".join(wrong)
    if result.skipped:
        return "skip", result.skipped[0][1]
    return "ok", ""


def run_as_child(test, writer):
    """Does not return: the process ends as a program that ran the test would."""
    os.setsid()
    quiet = os.open("/dev/null", os.O_RDWR)
    os.dup2(quiet, 0)
    os.dup2(2, 1)
    outcome = run_here(test)
    with os.fdopen(writer, "w") as pipe:
        json.dump(outcome, pipe)
    sys.exit(0)


def read_until(fd, deadline):
    """All that comes until the other end is closed; None when the time is over."""
    text = b""
    while True:
        ready, _, _ = select.select([fd], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            return None
        some = os.read(fd, 65536)
        if not some:
            return text
        text += some


def wait_until(pid, deadline):
    """The wait status; None when the time is over."""
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    return None


def judge(test, limit):
    """Returns (outcome, text) of the test, run in a child."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    deadline = time.monotonic() + limit
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        run_as_child(test, writer)
    os.close(writer)
    text = read_until(reader, deadline)
    os.close(reader)
    status = None if text is None else wait_until(pid, deadline)
    try:
        os.killpg(pid, signal.SIGKILL)  # children that it left behind, too
    except ProcessLookupError:
        pass
    if status is None:
        os.waitpid(pid, 0)
        return "hang", "not finished after %d s" % limit
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return "crash", name + (" after it had said %s" % text.decode() if text else "")
    if os.WEXITSTATUS(status) != 0 or not text:
        return "fail", "ended with status %d" % os.WEXITSTATUS(status)
    return tuple(json.loads(text))


def main():
    folder, device, limit = sys.argv[1:4]
    tests = load(folder, device, "--impatient" in sys.argv)
    print(json.dumps(sorted(tests)), flush=True)
    for line in sys.stdin:
        name, _, own_limit = line.strip().partition(" ")
        start = time.monotonic()
        outcome, text = judge(tests[name], float(own_limit or limit)) if name in tests else (
            "fail", "the suite has no such test")
        print(json.dumps({"name": name, "outcome": outcome, "text": text,
                          "seconds": time.monotonic() - start}), flush=True)


if __name__ == "__main__":
    main()
