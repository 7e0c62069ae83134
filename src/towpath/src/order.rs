//! `towpath reload` and `towpath drain`: orders for a proxy that runs, by its admin port.

use crate::{
    ask::{self, Port},
    cli::AskOptions,
};
use serde_json::Value;
use std::process::ExitCode;

/// Has a proxy read its configuration again.
pub(crate) fn reload(options: &AskOptions) -> ExitCode {
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
pub(crate) fn drain(options: &AskOptions) -> ExitCode {
    order(options, "/drain", |status, answer| match status {
        202 => {
            let (sessions, grace) = (&answer["sessions"], &answer["grace_seconds"]);
            println(&format!("draining: {sessions} sessions have {grace} s to finish"));
        }
        _ => eprintln(&format!("not drained: {}", text(&answer["error"]))),
    })
}

fn order(options: &AskOptions, path: &str, show: impl Fn(u16, &Value)) -> ExitCode {
    ask::exit(Port::of(options).and_then(|port| port.order(path)).map(|(status, answer)| {
        if options.json {
            ask::print_json(&answer);
        } else {
            show(status, &answer);
        }
        if (200..300).contains(&status) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }))
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
