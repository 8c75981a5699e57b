# SPDX-License-Identifier: Apache-2.0
"""Writes a trace of any size: the events of a real one again and again, later each time and with other ids.

python3 make_large_trace.py TRACE.json.gz OUT.json[.gz] MIB
"""

import gzip
import json
import sys

IDS = ("External id", "external id", "correlation", "Sequence number", "Ev Idx")


def opened(path, mode):
    return gzip.open(path, mode, compresslevel=1) if path.endswith(".gz") else open(path, mode)


def parts_of(event):
    """The event's text as fixed parts, and what stands between: (kind, value)."""
    marks = []

    def mark(kind, value):
        marks.append((kind, value))
        return f"\x01{len(marks) - 1}\x01"

    event = dict(event, ts=mark("time", event["ts"]))
    if isinstance(event.get("id"), int):
        event["id"] = mark("id", event["id"])
    args = dict(event.get("args", {}))
    for key in IDS:
        if isinstance(args.get(key), int):
            args[key] = mark("id", args[key])
    if args:
        event["args"] = args
    text = json.dumps(event).replace('"\\u0001', "\x01").replace('\\u0001"', "\x01")
    pieces = text.split("\x01")
    fixed, order = pieces[0::2], [marks[int(each)] for each in pieces[1::2]]
    return fixed, order


def main(source, path, mib):
    with opened(source, "rt") as file:
        trace = json.load(file)
    timed = [each for each in trace["traceEvents"] if each.get("ph") in ("X", "s", "f", "i")]
    first = min(float(each["ts"]) for each in timed)
    period = max(float(each["ts"]) + float(each.get("dur", 0)) for each in timed) - first + 100
    template = [parts_of(each) for each in timed]
    ids = [value for _, order in template for kind, value in order if kind == "id"]
    shift = max(ids, default=0) + 1
    others = {key: value for key, value in trace.items() if key != "traceEvents"}
    written, repeat = 0, 0
    with opened(path, "wt") as out:
        out.write(json.dumps(others)[:-1] + ', "traceEvents": [\n')
        while written < mib << 20:
            lines = []
            for fixed, order in template:
                text = [fixed[0]]
                for (kind, value), piece in zip(order, fixed[1:]):
                    if kind == "time":
                        text.append("%.3f" % (float(value) + repeat * period))
                    else:
                        text.append(str(value + repeat * shift))
                    text.append(piece)
                lines.append("".join(text))
            chunk = ",\n".join(lines)
            out.write((",\n" if repeat else "") + chunk)
            written += len(chunk)
            repeat += 1
        out.write("\n]}\n")
    print(f"{repeat} times {len(timed)} events")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
