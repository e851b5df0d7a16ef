"""Reads Meson's testlog.json. Prints the number of passed test cases, then one line for each that failed.

A Catch2 program counts as many as the test cases it reports, any other program as one."""

import json
import os
import re
import sys


def cases(output):
    """Passed and failed test cases by the last summary that Catch2 printed; None where there is none."""
    all_passed = re.findall(r"^All tests passed \(.* in (\d+) test cases?\)$", output, re.M)
    if all_passed:
        return int(all_passed[-1]), 0
    counted = re.findall(r"^test cases:(.*)$", output, re.M)
    if not counted:
        return None
    by_kind = {kind: int(count) for count, kind in re.findall(r"(\d+) (passed|failed)\b(?! as)", counted[-1])}
    return by_kind.get("passed", 0), by_kind.get("failed", 0)


def main(path):
    passed = 0
    failures = []
    if not os.path.exists(path):
        failures.append("the test runner (no results)")
    else:
        with open(path, encoding="utf-8", errors="replace") as log:
            for test in map(json.loads, log):
                plain = re.sub(r"\x1b\[[0-9;]*m", "", test.get("stdout") or "")
                ended_well = test["result"] in ("OK", "EXPECTEDFAIL")
                if test["result"] == "SKIP":
                    continue
                good, bad = cases(plain) or (int(ended_well), 0)
                passed += good
                failures += [f"{test['name']} ({test['result'].lower()})"] * max(bad, 0 if ended_well else 1)
    print(passed)
    for failure in failures:
        print(failure)


main(sys.argv[1])
