//! Where what the proxy says of itself goes, and how it looks.

use anyhow::{Context, Result, anyhow};
use proxy::config::{Log, LogFormat};
use proxy::telemetry::{self, Telemetry};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::sync::Arc;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt};

/// Begins to log to standard error, and to trace if that is asked for, for the rest of the process.
pub(crate) fn to_stderr(log: &Log, telemetry: &Telemetry) -> Result<()> {
    let terminal = io::stderr().is_terminal();
    install(log, shape(log.format, terminal), terminal, io::stderr, telemetry)
}

/// Begins to log to a file that is made for it, for the rest of the process. `auto` is text there.
pub(crate) fn to_file(log: &Log, file: &Path) -> Result<()> {
    let file = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    install(log, shape(log.format, true), false, Arc::new(file), &Telemetry::default())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Json,
}

fn shape(format: LogFormat, read_by_people: bool) -> Shape {
    match format {
        LogFormat::Json => Shape::Json,
        LogFormat::Auto if !read_by_people => Shape::Json,
        LogFormat::Auto | LogFormat::Text => Shape::Text,
    }
}

fn install(
    log: &Log,
    shape: Shape,
    colour: bool,
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
    telemetry: &Telemetry,
) -> Result<()> {
    let filter = EnvFilter::try_new(&log.level).context("log.level")?;
    // Spans of commands are for traces: a line says what it has to say without them.
    let told = filter.and(filter_fn(|metadata| metadata.target() != telemetry::TARGET));
    let lines = fmt::layer().with_ansi(colour).with_writer(writer);
    let lines = match shape {
        Shape::Text => lines.boxed(),
        Shape::Json => lines.json().flatten_event(true).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(lines.with_filter(told));
    let installed = subscriber.with(telemetry.layer()).try_init();
    installed.map_err(|error| anyhow!("the log: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_get_json_unless_told_otherwise() {
        assert_eq!(shape(LogFormat::Auto, false), Shape::Json);
        assert_eq!(shape(LogFormat::Auto, true), Shape::Text);
        assert_eq!(shape(LogFormat::Text, false), Shape::Text);
        assert_eq!(shape(LogFormat::Json, true), Shape::Json);
    }
}
