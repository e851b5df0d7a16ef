"""test_results.py TESTLOG.json FOLDER: prints how many test cases passed and failed, then of each program with failures
its name after FOLDER and the last lines that it printed, then of each with skipped cases these and why. The lines of the
former begin with "F", those of the latter with "S".

A Catch2 program counts as many as the test cases it reports, any other program as one. Skipped cases are neither."""

import json
import os
import re
import sys

LAST_LINES = 40


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


def skipped(output):
    """Pairs of a case and why, as tests/support/skipped.hpp prints them, or tests/cuda/driver_required.cpp of all."""
    cases = re.findall(r"^skipped: (.*)\t(.*)$", output, re.M)
    return dict(cases) | {"all": why for why in re.findall(r"^SKIP: (.*)$", output, re.M)}


def without_colour(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text or "")


def main(path, folder):
    passed = failed = 0
    told = []
    if not os.path.exists(path):
        failed = 1
        told = [f"F{folder}: the test runner (no results)"]
    else:
        with open(path, encoding="utf-8", errors="replace") as log:
            for test in map(json.loads, log):
                output = without_colour(test.get("stdout"))
                not_here = skipped(output)
                if not_here:
                    told.append(f"S{folder}: {test['name']}")
                    told += [f"S    {case}: {why}" for case, why in not_here.items()]
                if test["result"] == "SKIP":
                    continue
                ended_well = test["result"] in ("OK", "EXPECTEDFAIL")
                good, bad = cases(output) or (int(ended_well), 0)
                bad = max(bad, 0 if ended_well else 1)
                passed += max(good - len(not_here), 0)
                failed += bad
                if bad > 0:
                    told.append(f"F{folder}: {test['name']} ({bad} failed: {test['result'].lower()})")
                    lines = (output + without_colour(test.get("stderr"))).splitlines()
                    told += ["F    " + line for line in lines[-LAST_LINES:]]
    print(passed, failed)
    for line in told:
        print(line)


main(*sys.argv[1:])
