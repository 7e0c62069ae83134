#!/usr/bin/env python3
"""Run each case directly and through the proxy and compare the transcripts.

SAME   equal transcripts              DIFF   they differ
ERROR  the case broke off on both sides (a fault of the case or of the set-up)
SKIP   the case does not apply on the direct side
KNOWN  they differ, and the file given with --expected says why; counted as skipped
GONE   listed there, but equal by now: take it off the list
"""
import argparse
import difflib
import json
import sys
import tomllib
from collections import Counter

from battery import add_common, endpoint, make_target
from casekit import REGISTRY, Fixtures, load_cases, run_case, select
from rawmysql import STATUS

FLAG_NAMES = set(STATUS.values())


def without_flags(value, flags):
    """The transcript without some status flags, to look past one general difference."""
    if isinstance(value, dict):
        return {k: without_flags(v, flags) for k, v in value.items()}
    if isinstance(value, list):
        return [without_flags(v, flags) for v in value]
    if isinstance(value, str) and set(value.split("|")) <= FLAG_NAMES:
        return "|".join(name for name in value.split("|") if name not in flags)
    return value


def lines(outcome):
    return ["%s: %s" % (label, json.dumps(value, ensure_ascii=False, sort_keys=True))
            for label, value in outcome.transcript]


def judge(direct, proxy):
    if direct.status == "skip" or proxy.status == "skip":
        return "SKIP" if direct.status == proxy.status else "DIFF"
    if direct.status == "error" and proxy.status == "error":
        return "ERROR"
    if direct.status != proxy.status or direct.transcript != proxy.transcript:
        return "DIFF"
    return "SAME"


def read_expected(path, mariadb):
    """Case name -> reason, from the tables [both] and [mariadb] or [mysql] of a TOML file."""
    if not path:
        return {}
    with open(path, "rb") as file:
        tables = tomllib.load(file)
    expected = tables.get("both", {}) | tables.get("mariadb" if mariadb else "mysql", {})
    unknown = [name for table in tables.values() for name in table if name not in REGISTRY]
    if unknown:
        sys.exit("%s: no such case: %s" % (path, ", ".join(unknown)))
    return expected


def clip(text, width=400):
    return text if len(text) <= width else text[:width] + " ..."


def differences(direct, proxy, limit):
    diff = [line for line in difflib.unified_diff(lines(direct), lines(proxy), "direct", "proxy", lineterm="", n=0)
            if not line.startswith(("---", "+++", "@@"))]
    shown = [clip("      " + line) for line in diff[:limit]]
    if len(diff) > limit:
        shown.append("      ... %d more lines" % (len(diff) - limit))
    return shown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--direct", required=True, metavar="HOST:PORT")
    parser.add_argument("--proxy", required=True, metavar="HOST:PORT")
    parser.add_argument("--repeat", type=int, default=1, help="run the whole comparison several times")
    parser.add_argument("--diff-lines", type=int, default=12)
    parser.add_argument("--ignore-flag", action="append", default=[], choices=sorted(FLAG_NAMES), metavar="FLAG",
                        help="leave a status flag out of the comparison (repeatable): " + ", ".join(sorted(FLAG_NAMES)))
    parser.add_argument("--expected", metavar="FILE", help="TOML list of cases that are known to differ, with reasons")
    parser.add_argument("--quiet", action="store_true", help="print only what is not SAME")
    add_common(parser)
    args = parser.parse_args()
    load_cases()
    sides = {name: make_target(args, *endpoint(getattr(args, name))) for name in ("direct", "proxy")}
    for side in sides.values():
        side.check()
    fixtures = Fixtures(sides["direct"])
    fixtures.install()
    expected = read_expected(args.expected, fixtures.mariadb)
    counts, by_class, report = Counter(), {}, []
    for turn in range(args.repeat):
        for item in select(args.filter, args.fast, args.quirks):
            direct = run_case(item, sides["direct"], fixtures, args.case_timeout)
            proxy = run_case(item, sides["proxy"], fixtures, args.case_timeout)
            for side in (direct, proxy):
                side.transcript = without_flags(side.transcript, args.ignore_flag)
            verdict = judge(direct, proxy)
            if item.name in expected:
                verdict = {"DIFF": "KNOWN", "ERROR": "KNOWN", "SAME": "GONE"}.get(verdict, verdict)
            counts[verdict] += 1
            by_class.setdefault(item.cls, Counter())[verdict] += 1
            report.append({"case": item.name, "class": item.cls, "reports": item.reports, "verdict": verdict,
                           "direct": direct.__dict__, "proxy": proxy.__dict__})
            if verdict == "SAME" and args.quiet:
                continue
            note = expected[item.name] if verdict == "KNOWN" else direct.detail if verdict in ("SKIP", "ERROR") else ""
            print("%-5s %-13s %-44s %5.1fs %5.1fs %s" % (verdict, item.cls, item.name, direct.seconds, proxy.seconds,
                                                         note), flush=True)
            if verdict == "DIFF":
                print("      reports: " + ", ".join(item.reports))
                print("\n".join(differences(direct, proxy, args.diff_lines)), flush=True)
    fixtures.close()
    if args.json:
        with open(args.json, "w") as out:
            json.dump(report, out, indent=1, ensure_ascii=False)
    print("by class: " + "; ".join("%s %s" % (cls, " ".join("%s=%d" % kv for kv in sorted(c.items())))
                                   for cls, c in by_class.items()))
    print("%d passed, %d failed, %d skipped" % (counts["SAME"] + counts["GONE"], counts["DIFF"] + counts["ERROR"],
                                            counts["SKIP"] + counts["KNOWN"]))
    return 1 if counts["DIFF"] + counts["ERROR"] else 0


if __name__ == "__main__":
    sys.exit(main())
