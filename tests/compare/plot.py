"""The picture of a result, as SVG text: a panel for each metric, a line for each load, a mark for each proxy.

A mark is the median; the bar through it reaches from the lowest to the highest repetition."""
import math
from xml.sax.saxutils import escape

import figures
from proxies import TITLES
from tables import VENDORS

# Colours with contrast on white and on black, and a shape of its own for those who see no colours.
MARKS = {
    "copy": ("#808790", "square"), "haproxy": ("#2f81d6", "circle"), "router": ("#d9822b", "triangle"),
    "towpath": ("#1a9c5b", "diamond"), "towpath-predict": ("#0e6f6f", "diamond"),
    "towpath-fast-forward": ("#7a9a12", "diamond"),
    "proxysql": ("#a05fd0", "cross"), "maxscale": ("#d0455f", "ring"),
}
# Loads that stand for their like.
SHOWN = ("point-select/text/", "point-select/prepared/16", "read-only/text/16", "read-write/text/16", "tls-", "connect",
         "result", "upload", "commands")
STYLE = """
.back { fill: #ffffff; }
.grid { stroke: #1f2328; opacity: .13; } .one { stroke: #1f2328; opacity: .55; }
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 13px; } .quiet { opacity: .7; } .end { text-anchor: end; } .middle { text-anchor: middle; }
@media (prefers-color-scheme: dark) {
  .back { fill: #0d1117; } text { fill: #e6edf3; } .grid, .one { stroke: #e6edf3; }
}
"""
LABELS, PANEL, GAP, STEP, TOP = 300, 330, 40, 26, 92


def svg(result):
    loads = [row for row in result["rows"] if row["unit"] != "session"]
    shown = [row for row in loads if row["row"].startswith(SHOWN)] or loads
    idle = [row for row in result["rows"] if row["unit"] == "session"]
    names = [name for name in MARKS if any(name in row["figures"] for row in result["rows"])]
    lines = []
    for vendor in VENDORS:
        mine = [row for row in shown if row["vendor"] == vendor]
        lines += [VENDORS[vendor]] * bool(mine) + mine
    y = TOP
    width = LABELS + 2 * (PANEL + GAP) + 10
    parts = legend(result, names, width)
    panels = [("processor time, byte copy = 1", figures.cost_against_copy), ("throughput, direct access = 1", figures.throughput)]
    if lines:
        parts += labels(lines, y)
        for number, (title, metric) in enumerate(panels):
            parts += panel(title, metric, lines, names, LABELS + number * (PANEL + GAP), y, 1)
        y += len(lines) * STEP + 70
    if idle:
        parts += labels(idle, y)
        parts += panel("kB for each idle session", figures.plain("kb"), idle, names, LABELS, y, None)
        y += len(idle) * STEP + 40
    return '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">\n' \
           '<title>Towpath beside other proxies</title>\n<style>%s</style>\n<rect class="back" width="100%%" height="100%%"/>\n%s\n</svg>\n' % (
               width, y, width, y, STYLE, "\n".join(parts))


def legend(result, names, width):
    when, cores = result["when"].split()[0], result["machine"]["cores"]
    parts = [text(10, 22, "Towpath beside other proxies", "title"),
             text(width - 10, 22, "%s, %d cores, median and range of %d repetitions" % (when, cores, result["repetitions"]), "quiet end")]
    x = 10
    for name in names:
        parts += [mark(name, x + 6, 42), text(x + 18, 46, TITLES[name])]
        x += 40 + 7 * len(TITLES[name])
    return parts


def labels(lines, top):
    parts = []
    for number, line in enumerate(lines):
        y = top + number * STEP + 4
        parts.append(text(10, y, line, "title") if isinstance(line, str) else text(10, y, line["title"]))
    return parts


def panel(title, metric, lines, names, left, top, reference):
    """One metric: its axis, then a bar and a mark for each load and proxy."""
    found = [[(name, spread) for name in names for spread in [metric(line, name)] if spread]
             for line in lines if not isinstance(line, str)]
    middles = [spread.middle for line in found for _, spread in line]
    if not middles:
        return []
    # by the medians: a bar that leaves the panel ends at its border
    end, step = axis(1.1 * max(middles + [reference or 0]))
    bottom = top + (len(lines) - 1) * STEP + STEP / 2

    def place(value):
        return left + PANEL * min(value, end) / end

    parts = [text(left, top - 30, title, "title")]
    for number in range(round(end / step) + 1):
        x = place(number * step)
        parts += [line_between(x, top - STEP / 2, x, bottom, "grid"), text(x, top - 16, "%g" % (number * step), "quiet middle")]
    if reference:
        parts.append(line_between(place(reference), top - STEP / 2, place(reference), bottom, "one"))
    rows = iter(found)
    for number, line in enumerate(lines):
        marks = [] if isinstance(line, str) else next(rows)
        for place_in_row, (name, spread) in enumerate(marks):
            # marks of one load stand a little apart, so that equal ones are seen
            y = top + number * STEP + (place_in_row - (len(marks) - 1) / 2) * 4
            parts.append('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="2" opacity=".6"/>' % (
                place(spread.low), y, place(spread.high), y, MARKS[name][0]))
            parts.append(mark(name, place(spread.middle), y))
    return parts


def axis(highest):
    """Where an axis ends that begins at 0, and how far its lines lie apart."""
    step = 10 ** math.floor(math.log10(highest or 1))
    for part in (0.1, 0.2, 0.5, 1):
        if highest / (step * part) <= 8:
            step *= part
            break
    return math.ceil(highest / step + 1e-9) * step, step


def mark(name, x, y):
    colour, shape = MARKS[name]
    if shape == "ring":
        return '<circle cx="%.1f" cy="%.1f" r="4" fill="none" stroke="%s" stroke-width="2"/>' % (x, y, colour)
    if shape == "circle":
        return '<circle cx="%.1f" cy="%.1f" r="4.5" fill="%s"/>' % (x, y, colour)
    points = {
        "square": [(-4, -4), (4, -4), (4, 4), (-4, 4)], "triangle": [(0, -5), (5, 4), (-5, 4)],
        "diamond": [(0, -6), (6, 0), (0, 6), (-6, 0)],
        "cross": [(-5, -2), (-2, -2), (-2, -5), (2, -5), (2, -2), (5, -2), (5, 2), (2, 2), (2, 5), (-2, 5), (-2, 2), (-5, 2)],
    }[shape]
    return '<polygon points="%s" fill="%s"/>' % (" ".join("%.1f,%.1f" % (x + dx, y + dy) for dx, dy in points), colour)


def text(x, y, words, kind=""):
    return '<text x="%.1f" y="%.1f" class="%s">%s</text>' % (x, y, kind, escape(words))


def line_between(x1, y1, x2, y2, kind):
    return '<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>' % (x1, y1, x2, y2, kind)
