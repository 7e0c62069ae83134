//! The commands that need no server: what they print, and how they end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Good, though nobody listens at the server's address. Port 0 is any free one.
const GOOD: &str = r#"
admin = { address = "127.0.0.1:0" }
listener = [{ address = "127.0.0.1:0", chain = "main" }]
user = [{ name = "app", password = "", hostgroup = 0 }]
server = [{ hostgroup = 0, address = "127.0.0.1:1" }]
chain.main.session = [{ use = "route" }]
"#;

fn towpath(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_towpath")).args(arguments).output().unwrap()
}

fn file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("towpath.toml");
    fs::write(&path, text).unwrap();
    (dir, path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn version_and_schema_are_printed() {
    let version = towpath(&["--version"]);
    assert_eq!(text(&version.stdout), concat!("towpath ", env!("CARGO_PKG_VERSION"), "\n"));
    let schema = towpath(&["schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert!(schema["properties"]["listener"].is_object(), "{schema}");
}

#[test]
fn no_command_is_a_wrong_use() {
    let output = towpath(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("Usage: towpath"));
}

#[test]
fn good_file_is_called_good() {
    let (_dir, path) = file(GOOD);
    let output = towpath(&["check", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("is good: 1 listener"), "{}", text(&output.stdout));
}

#[test]
fn bad_file_is_neither_good_nor_run() {
    let (_dir, path) = file(&GOOD.replace("session", "sesion"));
    for command in ["check", "run"] {
        let output = towpath(&[command, path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        assert!(said.contains("sesion") && said.contains("towpath.toml:6:"), "{said}");
    }
}

#[test]
fn address_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (_dir, path) = file(&GOOD.replace("127.0.0.1:0\", chain", &format!("{address}\", chain")));
    let output = towpath(&["run", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&address), "{}", text(&output.stderr));
}

#[test]
fn running_proxy_logs_and_ends_gracefully() {
    for signal in [Signal::INT, Signal::TERM] {
        let (_dir, path) = file(GOOD);
        let mut child = Command::new(env!("CARGO_BIN_EXE_towpath"))
            .arg("run")
            .arg(path)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        log.read_line(&mut first).unwrap();
        let line: serde_json::Value = serde_json::from_str(&first).unwrap();
        assert_eq!(line["message"], "listening", "{first}");
        assert!(!line["address"].as_str().unwrap().ends_with(":0"), "{first}");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let mut rest = String::new();
        log.read_to_string(&mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{rest}");
        assert!(rest.contains("stopped"), "{rest}");
    }
}
