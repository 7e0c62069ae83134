//! How each driver's program is started.

use e2e::{cluster::cache, program};
use std::{ffi::OsString, path::PathBuf};

/// A driver and its program.
pub(super) struct Driver {
    pub(super) name: &'static str,
    language: Language,
    /// The program's file below `tests/drivers`, or its name where it is compiled.
    file: &'static str,
    /// What tells two drivers of one program apart.
    choice: Option<&'static str>,
    /// What it can compress with.
    pub(super) compression: &'static [&'static str],
}

enum Language {
    Python,
    Node,
    Php,
    Perl,
    Go,
    Rust,
}

/// A command line without the arguments that say where to connect.
#[derive(Clone)]
pub(super) struct Program {
    pub(super) words: Vec<OsString>,
    pub(super) environment: Vec<(&'static str, PathBuf)>,
}

const ZLIB: &[&str] = &["zlib"];
const NOTHING: &[&str] = &[];

pub(super) const PYMYSQL: Driver = python("PyMySQL", "pymysql", NOTHING);
pub(super) const MYSQLCLIENT: Driver = python("mysqlclient", "mysqlclient", ZLIB);
pub(super) const CONNECTOR_PYTHON: Driver = python("MySQL Connector/Python", "connector", ZLIB);
pub(super) const ASYNCMY: Driver = python("asyncmy", "asyncmy", NOTHING);
pub(super) const NODE_MYSQL2: Driver =
    Driver::new("node mysql2", Language::Node, "node/mysql2.js", ZLIB);
pub(super) const NODE_MARIADB: Driver =
    Driver::new("node mariadb", Language::Node, "node/mariadb.js", ZLIB);
pub(super) const PHP_MYSQLI: Driver =
    Driver::new("PHP mysqli", Language::Php, "php/mysqli.php", ZLIB);
pub(super) const PHP_PDO: Driver = Driver::new("PHP PDO", Language::Php, "php/pdo.php", ZLIB);
pub(super) const PERL_DBD_MYSQL: Driver = perl("Perl DBD::mysql", "mysql");
pub(super) const PERL_DBD_MARIADB: Driver = perl("Perl DBD::MariaDB", "MariaDB");
pub(super) const GO: Driver = Driver::new("go-sql-driver", Language::Go, "go-session", NOTHING);
pub(super) const MYSQL_ASYNC: Driver =
    Driver::new("mysql_async", Language::Rust, "mysql-async-session", ZLIB);
// its answer to caching_sha2_password is wrong, so that it is always asked for the password itself
pub(super) const SQLX: Driver = Driver::new("sqlx", Language::Rust, "sqlx-session", NOTHING);
pub(super) const DIESEL: Driver = Driver::new("diesel", Language::Rust, "diesel-session", NOTHING);

pub(super) const ALL: &[&Driver] = &[
    &PYMYSQL,
    &MYSQLCLIENT,
    &CONNECTOR_PYTHON,
    &ASYNCMY,
    &NODE_MYSQL2,
    &NODE_MARIADB,
    &PHP_MYSQLI,
    &PHP_PDO,
    &PERL_DBD_MYSQL,
    &PERL_DBD_MARIADB,
    &GO,
    &MYSQL_ASYNC,
    &SQLX,
    &DIESEL,
];

const fn python(name: &'static str, choice: &'static str, compression: &'static [&str]) -> Driver {
    Driver {
        choice: Some(choice),
        ..Driver::new(name, Language::Python, "python/session.py", compression)
    }
}

const fn perl(name: &'static str, choice: &'static str) -> Driver {
    Driver { choice: Some(choice), ..Driver::new(name, Language::Perl, "perl/session.pl", ZLIB) }
}

impl Driver {
    const fn new(
        name: &'static str,
        language: Language,
        file: &'static str,
        compression: &'static [&'static str],
    ) -> Self {
        Self { name, language, file, choice: None, compression }
    }

    /// Its command line; `None` where it is not installed.
    pub(super) fn program(&self) -> Option<Program> {
        let file = folder().join(self.file);
        let mut environment = Vec::new();
        let mut words = match self.language {
            Language::Python => vec![program::python()?, file],
            Language::Node => {
                let modules = cache().join("node/node_modules");
                environment.push(("NODE_PATH", modules.clone()));
                modules.is_dir().then_some(vec![program::on_path("node")?, file])?
            }
            Language::Php => vec![program::on_path("php")?, file],
            Language::Perl => vec![program::on_path("perl")?, file],
            Language::Go => vec![built("go", self.file)?],
            Language::Rust => vec![built("rust-drivers/debug", self.file)?],
        };
        words.extend(self.choice.map(PathBuf::from));
        Some(Program { words: words.into_iter().map(Into::into).collect(), environment })
    }
}

/// `tests/drivers`.
pub(super) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("drivers")
}

/// A program that `tests/run` has built.
fn built(folder: &str, name: &str) -> Option<PathBuf> {
    Some(cache().join(folder).join(name)).filter(|path| path.is_file())
}
