#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the skipped tests with their reasons, the slowest programs and, last, what failed, from the JUnit file of ctest
and the XML files of GoogleTest in a folder."""
import pathlib
import sys
import xml.etree.ElementTree as xml

NAMES_SHOWN = 4
PROGRAMS_SHOWN = 10
LINES_OF_A_FAILURE = 12


def cases(folder):
    """Yields (test name, reason or None) for each test case; one with a reason was skipped."""
    for path in sorted(folder.glob("*.xml")):  # one per GoogleTest program
        for case in xml.parse(path).iter("testcase"):
            if case.get("status") != "run":
                continue  # filtered out or disabled
            skipped = case.find("skipped")
            reason = None
            if skipped is not None:
                # The message is "file:line", then the text of GTEST_SKIP().
                lines = (skipped.get("message") or "").splitlines()
                reason = (lines[1:] or ["no reason given"])[0].strip() or "no reason given"
            yield f"{case.get('classname')}.{case.get('name')}", reason
    for path in sorted(folder.glob("*.junit")):  # programs that ctest counts as skipped
        for case in xml.parse(path).iter("testcase"):
            skipped = case.find("skipped")
            if skipped is not None:
                output = (case.findtext("system-out") or "").strip().splitlines()
                yield case.get("name"), output[-1] if output else skipped.get("message", "")


def seconds_of_programs(folder):
    """Returns (seconds, name) of each program that ctest ran, the slowest first."""
    return sorted(((float(case.get("time") or 0), case.get("name")) for path in folder.glob("*.junit")
                   for case in xml.parse(path).iter("testcase")), reverse=True)


def failures(folder):
    """Yields (test name, the beginning of its first failure) for each failed test case of GoogleTest."""
    for path in sorted(folder.glob("*.xml")):
        for case in xml.parse(path).iter("testcase"):
            failure = case.find("failure")
            if failure is not None:
                lines = (failure.get("message") or "").splitlines()
                yield f"{case.get('classname')}.{case.get('name')}", lines[:LINES_OF_A_FAILURE]


def main():
    folder = pathlib.Path(sys.argv[1])
    count, by_reason = 0, {}
    for name, reason in cases(folder):
        count += 1
        if reason is not None:
            by_reason.setdefault(reason, []).append(name)
    skipped = sum(len(names) for names in by_reason.values())
    print(f"\nTest cases: {count}, skipped: {skipped}")
    for reason, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        shown = ", ".join(names[:NAMES_SHOWN])
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        print(f"  {len(names):4}  {reason}: {shown}{more}")
    print("Slowest programs:")
    for seconds, name in seconds_of_programs(folder)[:PROGRAMS_SHOWN]:
        print(f"  {seconds:6.1f} s  {name}")
    for name, lines in failures(folder):
        print(f"Failed: {name}")
        for line in lines:
            print(f"  {line}")


if __name__ == "__main__":
    main()
