"""What the sessions of all Python drivers share: arguments, the script's statements, printing."""
import hashlib
import sys

ARGUMENTS = dict(argument.split("=", 1) for argument in sys.argv[2:])
TLS = ARGUMENTS["tls"] == "on"
COMPRESS = ARGUMENTS["compress"] == "zlib"
BIG = int(ARGUMENTS["big"])


def title(text):
    print("----", text)


def statements():
    """A statement ends with a semicolon at the end of a line."""
    with open(ARGUMENTS["file"], encoding="utf-8") as file:
        return [part.strip() for part in file.read().split(";\n") if part.strip()]


def short(value):
    """A value's text; of a long one its beginning, its length and a hash."""
    text = repr(sorted(value) if isinstance(value, set) else value) # a set has no order
    if len(text) < 300:
        return text
    return "%s ... %d %s" % (text[:80], len(text), hashlib.sha256(text.encode()).hexdigest()[:16])


def row(values):
    print("  row", ", ".join(short(value) for value in values))


def failure(error):
    print("  %s %s %s" % (type(error).__name__, getattr(error, "sqlstate", ""), short(error.args)))


def big_value():
    """BIG characters in which no piece repeats soon, so that a lost or doubled packet shows."""
    block = "".join(hashlib.sha256(b"%d" % n).hexdigest() for n in range(1 << 14))
    return (block * (BIG // len(block) + 1))[:BIG]


def digest(value):
    value = value.encode() if isinstance(value, str) else value
    return "%d bytes %s" % (len(value), hashlib.sha256(value).hexdigest())
