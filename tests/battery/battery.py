#!/usr/bin/env python3
"""Run the case battery against one endpoint and print or store the transcripts."""
import argparse
import json
import sys

from casekit import ACCOUNTS, Fixtures, Target, load_cases, run_case, select


def add_common(parser):
    parser.add_argument("--user", default="qa", help="account with all privileges")
    parser.add_argument("--password", default="qapass")
    parser.add_argument("--ssl", choices=("disabled", "preferred", "required"), default="disabled",
                        help="TLS for ordinary connections; TLS cases use it in any event")
    parser.add_argument("--ssl-ca", help="CA file to verify the server with")
    parser.add_argument("--filter", help="regular expression on case name, class or report id")
    parser.add_argument("--fast", action="store_true", help="leave out the slow cases (big blobs, timeouts)")
    parser.add_argument("--no-quirks", dest="quirks", action="store_false",
                        help="leave out the cases in which a proxy may differ by a documented choice")
    parser.add_argument("--case-timeout", type=int, default=60, metavar="S")
    parser.add_argument("--json", metavar="OUT", help="write the transcripts to a file")


def endpoint(text):
    host, _, port = text.rpartition(":")
    return host or "127.0.0.1", int(port)


def make_target(args, host, port):
    return Target(host, port, args.user, args.password, args.ssl, args.ssl_ca)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=3306)
    parser.add_argument("--setup", metavar="HOST:PORT", help="endpoint for schemas and accounts (default: the same)")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--accounts", action="store_true", help="list the accounts the battery makes and stop")
    parser.add_argument("--users-toml", action="store_true",
                        help="print all accounts as the [[user]] tables of a Towpath configuration and stop")
    parser.add_argument("--verbose", action="store_true", help="print every transcript")
    add_common(parser)
    args = parser.parse_args()
    load_cases()
    cases = select(args.filter, args.fast, args.quirks)
    if args.list:
        for item in cases:
            print("%-13s %-44s %s%s" % (item.cls, item.name, ", ".join(item.reports), " (quirk)" if item.quirk else ""))
        print("%d cases" % len(cases))
        return 0
    if args.accounts:
        for user, password, kind, _ in ACCOUNTS.values():
            print("%-12s %-14r %s" % (user, password, kind))
        return 0

    if args.users_toml:
        for user, password in [(args.user, args.password)] + [account[:2] for account in ACCOUNTS.values()]:
            print("[[user]]\nname = %s\npassword = %s\nhostgroup = 0" % (json.dumps(user), json.dumps(password)))
        return 0

    target = make_target(args, args.host, args.port)
    setup = make_target(args, *endpoint(args.setup)) if args.setup else target
    for one in (target, setup):
        one.check()
    fixtures = Fixtures(setup)
    fixtures.install()
    results, passed, failed, skipped = {}, 0, 0, 0
    for item in cases:
        outcome = run_case(item, target, fixtures, args.case_timeout)
        results[item.name] = {"class": item.cls, "reports": item.reports, "status": outcome.status,
                              "detail": outcome.detail, "seconds": round(outcome.seconds, 2),
                              "transcript": outcome.transcript}
        passed += outcome.status == "ok"
        failed += outcome.status == "error"
        skipped += outcome.status == "skip"
        print("%-5s %-13s %-44s %5.1fs %s" % (outcome.status.upper(), item.cls, item.name, outcome.seconds,
                                              outcome.detail))
        if args.verbose:
            for label, value in outcome.transcript:
                print("      %s: %s" % (label, json.dumps(value, ensure_ascii=False)))
    fixtures.close()
    if args.json:
        with open(args.json, "w") as out:
            json.dump(results, out, indent=1, ensure_ascii=False)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
