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
