//! `towpath reload` and `towpath drain`: orders for a proxy that runs, by its admin port.

use crate::cli::OrderOptions;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::TcpStream,
    process::ExitCode,
    time::Duration,
};

/// How long an answer may take: a reload compiles rules and binds sockets.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer is short.
const LONGEST: u64 = 4 << 20;

/// Has a proxy read its configuration again.
pub(crate) fn reload(options: &OrderOptions) -> ExitCode {
    order(options, "/reload", |status, answer| match status {
        200 => println(&format!("reloaded: {}", changes(answer))),
        _ => {
            for mistake in answer["mistakes"].as_array().into_iter().flatten() {
                eprintln(&mistake_line(mistake));
            }
            eprintln(&format!("not reloaded, nothing has changed: {}", text(&answer["error"])));
        }
    })
}

/// Has a proxy end.
pub(crate) fn drain(options: &OrderOptions) -> ExitCode {
    order(options, "/drain", |status, answer| match status {
        202 => {
            let (sessions, grace) = (&answer["sessions"], &answer["grace_seconds"]);
            println(&format!("draining: {sessions} sessions have {grace} s to finish"));
        }
        _ => eprintln(&format!("not drained: {}", text(&answer["error"]))),
    })
}

fn order(options: &OrderOptions, path: &str, show: impl Fn(u16, &Value)) -> ExitCode {
    let (status, body) = match post(&options.admin, path) {
        Ok(answer) => answer,
        Err(error) => {
            eprintln(&format!("towpath: {}: {error:#}", options.admin));
            return ExitCode::FAILURE;
        }
    };
    if options.json {
        println(&body);
    } else {
        show(status, &serde_json::from_str(&body).unwrap_or_default());
    }
    if (200..300).contains(&status) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Status and body of what the admin port answers.
fn post(admin: &str, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(admin)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
    )?;
    let mut answer = String::new();
    stream.take(LONGEST).read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let Some(status) = status.and_then(|status| status.parse().ok()) else {
        bail!("no HTTP answer")
    };
    Ok((status, body.to_owned()))
}

/// What a reload has changed, in words.
fn changes(answer: &Value) -> String {
    let mut words = Vec::new();
    for what in ["listeners", "users", "servers", "chains"] {
        let of = |key: &str| answer[what][key].as_u64().unwrap_or(0);
        for (key, word) in [("added", "added"), ("changed", "changed"), ("removed", "removed")] {
            if of(key) > 0 {
                words.push(format!("{} {what} {word}", of(key)));
            }
        }
    }
    if let Some(adapted @ 1..) = answer["chains_adapted"].as_u64() {
        words.push(format!("{adapted} chains adapted"));
    }
    for what in answer["needs_restart"].as_array().into_iter().flatten() {
        words.push(format!("{} needs a restart", text(what)));
    }
    if words.is_empty() {
        "nothing that is counted has changed".to_owned()
    } else {
        words.join(", ")
    }
}

fn mistake_line(mistake: &Value) -> String {
    let (file, message) = (text(&mistake["file"]), text(&mistake["message"]));
    let hint = mistake["hint"].as_str().map(|hint| format!(" ({hint})")).unwrap_or_default();
    match (&mistake["line"], &mistake["column"]) {
        (Value::Number(line), Value::Number(column)) if line.as_u64() != Some(0) => {
            format!("{file}:{line}:{column}: {message}{hint}")
        }
        _ => format!("{file}: {message}{hint}"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

fn println(line: &str) {
    anstream::println!("{line}");
}

fn eprintln(line: &str) {
    anstream::eprintln!("{line}");
}

#[cfg(test)]
mod tests {
    use super::{changes, mistake_line};
    use serde_json::json;

    #[test]
    fn answers_in_words() {
        let answer = json!({
            "users": { "added": 2, "changed": 0, "removed": 1 }, "chains_adapted": 1,
            "needs_restart": ["[admin]"],
        });
        let words = "2 users added, 1 users removed, 1 chains adapted, [admin] needs a restart";
        assert_eq!(changes(&answer), words);
        let mistake = json!({
            "file": "a.toml", "line": 3, "column": 7, "message": "wrong", "hint": "do it right",
        });
        assert_eq!(mistake_line(&mistake), "a.toml:3:7: wrong (do it right)");
    }
}
