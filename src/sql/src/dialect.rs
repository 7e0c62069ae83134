//! What a text's meaning depends on besides its bytes.

/// The session's and server's settings that change how a text is read.
///
/// The default is a server that nobody knows yet, with default `sql_mode`, spoken to in UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dialect {
    /// `sql_mode` has ANSI_QUOTES: `"x"` is a name, not a string.
    pub ansi_quotes: bool,
    /// `sql_mode` has NO_BACKSLASH_ESCAPES: a backslash in a string is a plain character.
    pub no_backslash_escapes: bool,
    /// The server that will run the text. Decides which executable comments are code, and which
    /// function names are the server's own. `None`: every such comment is code, and what depends
    /// on the vendor is unsure.
    pub server: Option<Server>,
    /// `character_set_client`, as far as the lexer must know it.
    pub charset: Charset,
    /// Nobody knows whether `ansi_quotes` or `charset` is right: a text whose reading depends on
    /// either is doubtful.
    pub unsure: bool,
}

/// A server's vendor and version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// Whose grammar it has.
    pub vendor: Vendor,
    /// `major * 10000 + minor * 100 + patch`, as executable comments write it: 80406, 101106.
    pub version: u32,
}

/// Whose server it is. Percona's is MySQL here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vendor {
    /// MySQL.
    MySql,
    /// MariaDB.
    MariaDb,
}

/// Charsets told apart by whether the second byte of a character may look like ASCII: in these a
/// backslash or a backtick may be half a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Charset {
    /// UTF-8, latin1 and all others: an ASCII byte is always that character.
    #[default]
    AsciiSafe,
    /// `gbk` and `gb18030`.
    Gbk,
    /// `sjis` and `cp932`.
    Sjis,
    /// `big5`.
    Big5,
}

impl Server {
    /// Reads a version as greetings and `VERSION()` write it: `8.4.3`, `10.11.6-MariaDB-1`,
    /// `5.5.5-10.11.6-MariaDB` (MariaDB's prefix for old replicas). `None` for anything else.
    pub fn from_version(text: &str) -> Option<Self> {
        let is_mariadb = text.to_ascii_lowercase().contains("mariadb");
        let vendor = if is_mariadb { Vendor::MariaDb } else { Vendor::MySql };
        let text = text.strip_prefix("5.5.5-").filter(|_| is_mariadb).unwrap_or(text);
        let numbers =
            text.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next()?;
        let mut parts = numbers.split('.').map(|part| part.parse::<u32>().ok());
        let mut part = || parts.next().flatten().filter(|&number| number < 100);
        let (major, minor, patch) = (part()?, part()?, part()?);
        Some(Self { vendor, version: major * 10_000 + minor * 100 + patch })
    }
}

impl Charset {
    /// The charset of that name, in any case.
    pub fn of_name(name: &[u8]) -> Self {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        match () {
            () if is("gbk") || is("gb18030") => Self::Gbk,
            () if is("sjis") || is("cp932") => Self::Sjis,
            () if is("big5") => Self::Big5,
            () => Self::AsciiSafe,
        }
    }

    /// The charset of a collation id, as a handshake carries it and `SHOW COLLATION` lists it.
    pub fn of_collation(id: u16) -> Self {
        // MariaDB's NOPAD collations are numbered like their elder siblings, from 1024 on.
        match if (1024..2048).contains(&id) { id - 1024 } else { id } {
            28 | 87 | 248..=250 => Self::Gbk,
            13 | 88 | 95 | 96 => Self::Sjis,
            1 | 84 => Self::Big5,
            _ => Self::AsciiSafe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Charset, Server, Vendor};

    #[test]
    fn versions_are_read_as_servers_write_them() {
        for (text, vendor, version) in [
            ("8.4.3", Vendor::MySql, 80_403),
            ("9.1.0-commercial", Vendor::MySql, 90_100),
            ("8.0.36-28.1", Vendor::MySql, 80_036),
            ("10.11.6-MariaDB-0+deb12u1", Vendor::MariaDb, 101_106),
            ("5.5.5-10.11.6-MariaDB", Vendor::MariaDb, 101_106),
            ("5.5.5-mariadb", Vendor::MariaDb, 0),
        ] {
            let expected = (version > 0).then_some(Server { vendor, version });
            assert_eq!(Server::from_version(text), expected, "{text}");
        }
        for text in ["", "8", "8.4", "MariaDB", "8.400.1", "99999999999.1.1", "8..1"] {
            assert_eq!(Server::from_version(text), None, "{text}");
        }
    }

    #[test]
    fn charsets_are_known_by_their_collations() {
        let charsets = [8, 45, 255, 28, 250, 13, 96, 1, 1025, 2049].map(Charset::of_collation);
        assert_eq!(charsets[..3], [Charset::AsciiSafe; 3]);
        assert_eq!(charsets[3..7], [Charset::Gbk, Charset::Gbk, Charset::Sjis, Charset::Sjis]);
        assert_eq!(charsets[7..], [Charset::Big5, Charset::Big5, Charset::AsciiSafe]);
    }
}
