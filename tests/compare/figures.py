"""From the measurements of a run to the numbers that are shown: median, lowest, highest."""
import operator
import statistics

# The reference of a metric that is relative.
DIRECT, COPY = "direct", "copy"


class Spread:
    """Several repetitions of one number."""

    def __init__(self, values):
        self.middle, self.low, self.high = statistics.median(values), min(values), max(values)


def against(row, proxy, reference, value, combine):
    """`combine(value of proxy, value of reference)` for each repetition that has both,
    the reference's above 0; None without any."""
    others = {one["repetition"]: one for one in row["figures"].get(reference, []) if value(one)}
    return spread(combine(value(one), value(others[one["repetition"]]))
                  for one in row["figures"].get(proxy, [])
                  if value(one) is not None and one["repetition"] in others)


def spread(values):
    values = list(values)
    return Spread(values) if values else None


def cost(one):
    """Processor time of the proxy, user and system together, in microseconds for each unit."""
    return one["user_us"] + one["system_us"] if "user_us" in one else None


def field(name):
    return lambda one: one.get(name)


def throughput(row, proxy):
    return against(row, proxy, DIRECT, field("rate"), operator.truediv)


def added(percentile):
    """A percentile's microseconds beyond direct access."""
    return lambda row, proxy: against(row, proxy, DIRECT, field(percentile), operator.sub)


def cost_of(row, proxy):
    return spread(cost(one) for one in row["figures"].get(proxy, []) if cost(one) is not None)


def cost_against_copy(row, proxy):
    return against(row, proxy, COPY, cost, operator.truediv)


def plain(name):
    """A value as it is."""
    return lambda row, proxy: spread(one[name] for one in row["figures"].get(proxy, []) if one.get(name) is not None)


def failed(row, proxy):
    return any("error" in one for one in row["figures"].get(proxy, []))
