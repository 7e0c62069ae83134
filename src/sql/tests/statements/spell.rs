//! Statements and dialects as the tables write them.

use sql::{Charset, Class, Dialect, Server, Statement, Vendor};

/// The bytes of a line: `\n`, `\t`, `\\` and `\xNN` stand for one each.
pub(crate) fn bytes(line: &str) -> Vec<u8> {
    let (mut text, mut rest) = (Vec::new(), line.as_bytes());
    while let [byte, behind @ ..] = rest {
        let (byte, length) = match (byte, behind) {
            (b'\\', [b'n', ..]) => (b'\n', 2),
            (b'\\', [b't', ..]) => (b'\t', 2),
            (b'\\', [b'\\', ..]) => (b'\\', 2),
            (b'\\', [b'x', high, low, ..]) => (hex(*high) * 16 + hex(*low), 4),
            _ => (*byte, 1),
        };
        text.push(byte);
        rest = &rest[length..];
    }
    text
}

/// `mysql 8.4.3`, `mariadb 10.11.6`, `ansi_quotes`, `gbk`, ...
pub(crate) fn dialect(settings: &str) -> Dialect {
    let base = Dialect::default();
    match settings.split_once(' ').unwrap_or((settings, "")) {
        ("", _) => base,
        ("mysql", version) => Dialect { server: server(Vendor::MySql, version), ..base },
        ("mariadb", version) => Dialect { server: server(Vendor::MariaDb, version), ..base },
        ("ansi_quotes", _) => Dialect { ansi_quotes: true, ..base },
        ("no_backslash_escapes", _) => Dialect { no_backslash_escapes: true, ..base },
        ("gbk", _) => Dialect { charset: Charset::Gbk, ..base },
        ("sjis", _) => Dialect { charset: Charset::Sjis, ..base },
        ("big5", _) => Dialect { charset: Charset::Big5, ..base },
        other => panic!("no dialect {other:?}"),
    }
}

/// A statement as a heading writes it: class, then flags.
pub(crate) fn spelled(statement: &Statement, text: &[u8]) -> String {
    let mut words = vec![class(statement.class)];
    let flags = [
        (statement.implicit_commit, "commit"),
        (statement.multi, "multi"),
        (statement.needs.last_write, "last_write"),
        (statement.needs.last_used, "last_used"),
        (statement.needs.user_variables, "user_variables"),
        (statement.needs.primary, "primary"),
    ];
    words.extend(flags.iter().filter(|(set, _)| *set).map(|(_, name)| (*name).to_owned()));
    if let Some(schema) = statement.new_schema(text) {
        words.push(format!("schema={}", String::from_utf8_lossy(&schema)));
    }
    words.join(" ")
}

fn class(class: Class) -> String {
    let (name, options) = match class {
        Class::Read => ("read", vec![]),
        Class::Write => ("write", vec![]),
        Class::Ddl => ("ddl", vec![]),
        Class::Begin { read_only, consistent_snapshot } => (
            "begin",
            vec![
                option(read_only, "read_only", "read_write"),
                option(consistent_snapshot.then_some(true), "snapshot", ""),
            ],
        ),
        Class::Commit { chain, release } => ("commit", ends(chain, release)),
        Class::Rollback { chain, release } => ("rollback", ends(chain, release)),
        Class::Savepoint => ("savepoint", vec![]),
        Class::SetSession => ("set_session", vec![]),
        Class::Use => ("use", vec![]),
        Class::Prepare => ("prepare", vec![]),
        Class::Execute => ("execute", vec![]),
        Class::Deallocate => ("deallocate", vec![]),
        Class::Lock => ("lock", vec![]),
        Class::Unlock => ("unlock", vec![]),
        Class::Show => ("show", vec![]),
        Class::Explain => ("explain", vec![]),
        Class::Call => ("call", vec![]),
        Class::Admin => ("admin", vec![]),
        Class::Kill => ("kill", vec![]),
        Class::Unknown => ("unknown", vec![]),
    };
    let options: Vec<_> = options.into_iter().flatten().collect();
    if options.is_empty() { name.to_owned() } else { format!("{name}({})", options.join(" ")) }
}

fn ends(chain: Option<bool>, release: Option<bool>) -> Vec<Option<&'static str>> {
    vec![option(chain, "chain", "no_chain"), option(release, "release", "no_release")]
}

fn option(value: Option<bool>, yes: &'static str, no: &'static str) -> Option<&'static str> {
    value.map(|value| if value { yes } else { no })
}

fn server(vendor: Vendor, version: &str) -> Option<Server> {
    let version = version.split('.').fold(0, |number, part| {
        number * 100 + part.parse::<u32>().expect("versions in the tables are numbers")
    });
    Some(Server { vendor, version })
}

fn hex(digit: u8) -> u8 {
    let digit = char::from(digit).to_digit(16).expect("\\x has two hexadecimal digits behind it");
    u8::try_from(digit).expect("a hexadecimal digit is small")
}
