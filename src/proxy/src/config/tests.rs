//! What a good file gives, what files say together, and what is not blamed on others.

use super::*;
use chain::{
    FilterFactory,
    facts::{Fact, Target},
    registry::IntoLayer,
};
use std::{fs, path::PathBuf};
use tempfile::TempDir;
use tower::{BoxError, layer::util::Identity};

/// Stands in for the filter that chooses a server.
struct Route;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct RouteSettings {
    #[expect(dead_code, reason = "it is only there to be checked")]
    policy: Option<String>,
}

impl FilterFactory for Route {
    const NAME: &'static str = "route";
    const GIVES: &'static [&'static str] = &[Target::NAME];
    type Config = RouteSettings;

    fn build(_: RouteSettings) -> Result<impl IntoLayer, BoxError> {
        Ok(Identity::new())
    }
}

const LISTENER: &str = "[[listener]]\naddress = '127.0.0.1:6033'\nchain = 'main'\n";
const USER: &str = "[[user]]\nname = 'app'\npassword = 'hunter2'\nhostgroup = 0\n";
const SERVER: &str = "[[server]]\nhostgroup = 0\naddress = '127.0.0.1:3306'\n";
const CHAIN: &str = "[chain.main]\nsession = [{ use = 'route' }]\n";

/// Files in a directory of their own; `main.toml` is the one that is loaded.
struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().expect("it has a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn load(&self) -> Result<Config, Mistakes> {
        let variable = |name: &str| (name == "APP_PASSWORD").then(|| "from-env".to_owned());
        Config::load_with(&self.path("main.toml"), &Registry::default().with::<Route>(), &variable)
    }

    /// `file:line message` of each mistake.
    fn refused(&self) -> Vec<String> {
        let mistakes = self.load().expect_err("these files have mistakes");
        let directory = format!("{}/", self.0.path().display());
        let short = mistakes.iter().map(|mistake| {
            let text = format!("{}:{} {}", mistake.file, mistake.line, mistake.message);
            text.replace(&directory, "")
        });
        short.collect()
    }
}

fn load(text: &str) -> Result<Config, Mistakes> {
    Files::new(&[("main.toml", text)]).load()
}

fn refused(text: &str) -> Vec<String> {
    Files::new(&[("main.toml", text)]).refused()
}

#[test]
fn the_smallest_file_has_the_defaults() {
    let config = load(&[LISTENER, USER, SERVER, CHAIN].concat()).expect("it is good");
    assert_eq!(config.admin.address, Address::Tcp("127.0.0.1:6032".to_owned()));
    assert_eq!(config.limits.max_allowed_packet, 64 << 20);
    assert_eq!(config.backend.connect_timeout.as_secs(), 2);
    assert_eq!(config.listeners[0].tls.mode, ListenerTlsMode::Prefer);
    assert_eq!(config.servers[0].name, "127.0.0.1:3306");
    assert_eq!((config.servers[0].weight, config.servers[0].max_connections), (1, 1000));
    assert_eq!(config.summary(), "1 listener, 1 chain, 1 user, 1 server");
}

#[test]
fn passwords_come_from_text_file_and_environment() {
    let users = "[[user]]\nname = 'a'\npassword = 'in-text'\nhostgroup = 0\n\
                 [[user]]\nname = 'b'\npassword_file = 'secret/b'\nhostgroup = 0\n\
                 [[user]]\nname = 'c'\npassword_env = 'APP_PASSWORD'\nhostgroup = 0\n\
                 backend_user = 'other'\nbackend_password = ''\n";
    let main = [LISTENER, users, SERVER, CHAIN].concat();
    let files = Files::new(&[("main.toml", &main), ("secret/b", "in-file\r\nsecond line\n")]);
    let config = files.load().expect("it is good");
    let seen: Vec<_> = config.users.iter().map(|user| user.account.password.expose()).collect();
    assert_eq!(seen, [&b"in-text"[..], b"in-file", b"from-env"]);
    assert_eq!(&*config.users[0].backend.user, "a");
    assert_eq!(config.users[0].backend.password.expose(), b"in-text");
    assert_eq!(&*config.users[2].backend.user, "other");
    assert!(config.users[2].backend.password.is_empty());
}

#[test]
fn debug_shows_no_password() {
    let config = load(&[LISTENER, USER, SERVER, CHAIN].concat()).expect("it is good");
    let shown = format!("{config:?}");
    assert!(shown.contains("app") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn paths_are_relative_to_the_file_that_names_them() {
    let socket = SERVER.replace("127.0.0.1:3306", "unix:db.sock");
    let main = ["include = ['more/servers.toml']\n", LISTENER, USER, CHAIN].concat();
    let files = Files::new(&[("main.toml", &main), ("more/servers.toml", &socket)]);
    let config = files.load().expect("it is good");
    assert_eq!(config.servers[0].address, Address::Unix(files.path("more/db.sock")));
    assert_eq!(config.servers[0].name, "unix:db.sock");
}

#[test]
fn tables_stand_once_in_all_the_files() {
    let main = ["include = ['more.toml']\n[log]\n", LISTENER, USER, SERVER, CHAIN].concat();
    let files = Files::new(&[("main.toml", &main), ("more.toml", &["[log]\n", CHAIN].concat())]);
    assert_eq!(
        files.refused(),
        [
            "more.toml:1 [log] stands here a second time",
            "more.toml:2 there are two chains \"main\""
        ]
    );
}

#[test]
fn included_files_include_no_others_and_are_checked_too() {
    let main = ["include = ['more.toml']\n", LISTENER, USER, SERVER, CHAIN].concat();
    let files = Files::new(&[("main.toml", &main), ("more.toml", "include = []\nx = 1\n")]);
    let expected =
        ["more.toml:1 an included file includes no others", "more.toml:2 unknown key `x`"];
    assert_eq!(files.refused(), expected);
}

#[test]
fn a_broken_table_is_not_blamed_on_others() {
    let broken = SERVER.replace("hostgroup = 0", "hostgroup = 'x'");
    let text = [LISTENER, USER, &broken, CHAIN].concat();
    assert_eq!(refused(&text), ["main.toml:9 expected an integer, found a string"]);
    let text = [&LISTENER.replace("address", "adress"), USER, SERVER, CHAIN].concat();
    assert_eq!(refused(&text), ["main.toml:2 unknown key `adress`"]);
    let text = [LISTENER, USER, SERVER, &CHAIN.replace("route", "rote")].concat();
    assert!(refused(&text).contains(&"main.toml:12 there is no filter \"rote\"".to_owned()));
}

#[test]
fn files_that_cannot_be_read() {
    let empty = Files::new(&[]);
    assert!(empty.refused()[0].starts_with("main.toml:0 the file cannot be read: No such file"));
    let files = Files::new(&[]);
    fs::write(files.path("main.toml"), b"\xff").expect("a file");
    assert_eq!(files.refused(), ["main.toml:0 the file cannot be read: it is not UTF-8 text"]);
    let endless = USER.replace("password = 'hunter2'", "password_file = '/dev/zero'");
    let text = [LISTENER, &endless, SERVER, CHAIN].concat();
    assert_eq!(refused(&text), ["main.toml:6 /dev/zero: it is larger than 65536 bytes"]);
}

#[test]
fn a_password_has_no_nul() {
    let text = [LISTENER, &USER.replace("'hunter2'", "\"a\\u0000b\""), SERVER, CHAIN].concat();
    assert_eq!(refused(&text), ["main.toml:6 a password has no NUL character"]);
}

#[test]
fn addresses() {
    let parse = |text: &str| Address::try_from(text.to_owned());
    let v6 = parse("[::1]:3306").expect("it is good");
    assert_eq!((v6.host(), v6.port()), (Some("::1"), Some(3306)));
    let name = parse("db.example:0").expect("it is good");
    assert_eq!((name.host(), name.port()), (Some("db.example"), Some(0)));
    let socket = parse("unix:/run/x.sock").expect("it is good");
    assert_eq!((socket.host(), socket.to_string().as_str()), (None, "unix:/run/x.sock"));
    for bad in ["", "db", "db:", "db:65536", "::1:3306", "unix:", &format!("unix:/{:0107}", 0)] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn several_listeners_may_ask_for_a_free_port() {
    let free = LISTENER.replace("6033", "0");
    assert!(load(&[&free, &free, USER, SERVER, CHAIN].concat()).is_ok());
}

#[test]
fn the_schema_knows_the_filters_settings() {
    let schema = Config::schema(&Registry::default().with::<Route>());
    let session = &schema["$defs"]["Chain"]["properties"]["session"]["items"]["oneOf"];
    assert_eq!(session[0]["properties"]["use"]["const"], "route");
    assert!(session[0]["properties"]["policy"].is_object());
    let backend = &schema["$defs"]["Chain"]["properties"]["backend"]["items"];
    assert_eq!(*backend, false, "there is no filter for it");
    assert!(!schema.to_string().contains("hunter2"));
}
