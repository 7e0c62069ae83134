"""The tables of a result: Markdown that is aligned, so that it reads on a terminal too."""
import figures
from proxies import TITLES

VENDORS = {"mariadb": "MariaDB", "mysql": "MySQL"}
BUSY = "**The machine was busy with other work (load average %.1f at the start): only memory says anything.**"


def two(number):
    return "%.2f" % number


def some(number):
    """Three digits that matter; the sign of what may be negative is for the caller to want."""
    size = abs(number)
    return "%.0f" % number if size >= 100 else "%.1f" % number if size >= 10 else "%.2f" % number


def page(result):
    """All of it: how it was measured, then a table for each metric and vendor."""
    parts = [head(result)]
    for vendor in VENDORS:
        loads = [row for row in result["rows"] if row["vendor"] == vendor and row["unit"] != "session"]
        if not loads:
            continue
        name = VENDORS[vendor]
        parts += [
            table("Throughput against direct access, %s" % name, loads, figures.throughput, two, direct=True),
            table("Processor time of the proxy against the byte copy's, %s" % name, loads, figures.cost_against_copy, two),
            table("Processor time of the proxy, user + system (lowest to highest sum), in µs for each query, connection or MiB, %s" % name, loads,
                  figures.cost_of, some, cell=costs),
            table("p50 added, µs, %s" % name, loads, figures.added("p50_us"), some),
            table("p99 added, µs, %s" % name, loads, figures.added("p99_us"), some),
            table("Round trips to the server beyond the statement's own, %s" % name, loads, figures.plain("round_trips"), two, beside=True),
            table("p50 of a PREPARE, µs, %s" % name, [row for row in loads if row["unit"] == "PREPARE"], figures.plain("p50_us"), some,
                  beside=True),
            table("In the proxy, for a PREPARE and the CLOSE behind it, µs, %s" % name, loads, figures.plain("inside_us"), some),
        ]
    idle = [row for row in result["rows"] if row["unit"] == "session"]
    parts.append(table("Memory of a session, kB; %d sessions" % result["sessions"], idle, figures.plain("kb"), some))
    parts.append(left_out(result))
    return "\n\n".join(part for part in parts if part)


def head(result):
    """When, where, with what; and whether the machine had other work to do."""
    machine = result["machine"]
    names = dict(TITLES, **VENDORS)
    versions = "; ".join("%s %s" % (names[name], version) for name, version in result["versions"].items() if version)
    measured = (
        "Measured {when} at commit {commit}: {cores} cores ({processor}, Linux {kernel}), {repetitions} repetitions of "
        "{seconds} s, scale {scale}, order from seed {seed}.\n{versions}.").format(**dict(result, **machine, versions=versions))
    if machine["load"] > machine["cores"] / 2:
        return BUSY % machine["load"] + "\n\n" + measured
    return measured


def table(title, rows, metric, number, direct=False, cell=None, beside=False):
    """A line for each row that has the metric, a column for each proxy that has a figure in one of them; with
    `beside`, one for direct access too."""
    names = [name for name in TITLES if (beside or name != figures.DIRECT) and any(name in row["figures"] for row in rows)]
    lines = []
    for row in rows:
        found = [metric(row, name) for name in names]
        failed = direct and any(figures.failed(row, name) for name in names)
        if not any(found) and not failed:
            continue
        line = [row["title"]]
        if direct:
            base = figures.plain("rate")(row, figures.DIRECT)
            line.append("%s %s/s" % (some(base.middle), row["unit"]) if base else "")
        for name, spread in zip(names, found):
            shown = "" if spread is None else (cell or plain)(row, name, spread, number)
            line.append(shown or ("failed" if figures.failed(row, name) else ""))
        lines.append(line)
    if not any(any(line[1:]) for line in lines):
        return ""
    heading = ["load"] + (["direct"] if direct else []) + [TITLES[name] for name in names]
    return "### %s\n\n%s" % (title, aligned([heading] + lines))


def plain(row, name, spread, number):
    return bracketed(number(spread.middle), spread, number)


def costs(row, name, spread, number):
    user, system = (figures.plain(part)(row, name) for part in ("user_us", "system_us"))
    return bracketed("%s + %s" % (number(user.middle), number(system.middle)), spread, number)


def bracketed(shown, spread, number):
    """With the lowest and highest, where these differ."""
    low, high = number(spread.low), number(spread.high)
    return shown if low == high else "%s (%s to %s)" % (shown, low, high)


def aligned(lines):
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    rows = ["| %s |" % " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) for line in lines]
    rows.insert(1, "|%s|" % "|".join("-" * (width + 2) for width in widths))
    return "\n".join(rows)


def left_out(result):
    if not result["left_out"]:
        return ""
    reasons = ("%s (%s)" % (TITLES.get(name, name), " ".join(reason.split())[:200])
               for name, reason in sorted(result["left_out"].items()))
    return "Not measured: %s." % "; ".join(reasons)
