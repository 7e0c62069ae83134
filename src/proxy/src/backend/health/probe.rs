//! The monitor's questions, and what servers answer.

use super::machine::Lag;
use crate::{
    backend::{
        connect::{ConnectError, Vendor},
        link::{Link, read_message},
    },
    config::MonitorTable,
};
use bytes::BytesMut;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use wire::{
    column::Column,
    command::CommandCode,
    err::ErrPacket,
    packet::put_packet,
    row::{self, Value},
};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ping,
    ReadOnly,
    Lag,
}

/// What a statement gives.
struct Rows {
    names: Vec<Vec<u8>>,
    rows: Vec<Vec<Option<Vec<u8>>>>,
}

/// An answer is a few rows at most.
const LIMIT: usize = 1 << 20;

/// MySQL's error for a variable that it does not have.
const UNKNOWN_VARIABLE: u16 = 1193;

/// From this version on MySQL says REPLICA.
const SAYS_REPLICA: u32 = 8_00_22;

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Ping, Self::ReadOnly, Self::Lag];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::ReadOnly => "read-only",
            Self::Lag => "lag",
        }
    }

    pub(super) fn interval(self, settings: &MonitorTable) -> Duration {
        match self {
            Self::Ping => settings.ping_interval,
            Self::ReadOnly => settings.read_only_interval,
            Self::Lag => settings.lag_interval,
        }
    }

    pub(super) fn timeout(self, settings: &MonitorTable) -> Duration {
        match self {
            Self::Ping => settings.ping_timeout,
            Self::ReadOnly => settings.read_only_timeout,
            Self::Lag => settings.lag_timeout,
        }
    }
}

/// Whether the server can be written to.
pub(super) async fn is_writable(link: &mut Link) -> Result<bool, ConnectError> {
    let all = match link.vendor {
        Vendor::MySql => {
            "SELECT @@global.read_only, @@global.super_read_only, @@global.innodb_read_only"
        }
        Vendor::MariaDb => "SELECT @@global.read_only, @@global.innodb_read_only",
    };
    let rows = match rows(link, all).await {
        // MySQL before 5.7.8
        Err(ConnectError::Refused(error)) if error.code == UNKNOWN_VARIABLE => {
            rows(link, "SELECT @@global.read_only").await?
        }
        rows => rows?,
    };
    let row = rows.rows.first().ok_or_else(|| odd("no row about read_only"))?;
    // MariaDB 12 has words for it, of which OFF alone lets writes in.
    let off = |value: &Option<Vec<u8>>| matches!(value.as_deref(), Some(b"0" | b"OFF"));
    Ok(row.iter().all(off))
}

/// How far it is behind, as it says itself or as a table with its primary's clock does.
/// `primary_answers`: whether there is anybody to follow. A replica that has lost its primary has
/// what there is to have, and says that it does not know.
pub(super) async fn lag(
    link: &mut Link,
    settings: &MonitorTable,
    primary_answers: bool,
) -> Result<Lag, ConnectError> {
    if let Some(table) = &settings.heartbeat_table {
        return heartbeat(link, table, &settings.heartbeat_column, primary_answers).await;
    }
    let version = link.version.map_or(0, |server| server.version);
    let (statement, column): (_, &[u8]) = match link.vendor {
        Vendor::MariaDb => ("SHOW ALL SLAVES STATUS", b"Seconds_Behind_Master"),
        Vendor::MySql if version < SAYS_REPLICA => ("SHOW SLAVE STATUS", b"Seconds_Behind_Master"),
        Vendor::MySql => ("SHOW REPLICA STATUS", b"Seconds_Behind_Source"),
    };
    let Rows { names, rows } = rows(link, statement).await?;
    let find = |column: &[u8]| names.iter().position(|name| name.eq_ignore_ascii_case(column));
    let at = find(column).ok_or_else(|| odd("the status of its replication has no lag"))?;
    let applies = find(b"Slave_SQL_Running").or_else(|| find(b"Replica_SQL_Running"));
    // The worst of its sources.
    let mut worst = Lag::Unknown;
    for row in rows {
        let value = |at: usize| std::str::from_utf8(row.get(at)?.as_deref()?).ok();
        let seconds = value(at).and_then(|value| value.parse().ok());
        let applies = applies.and_then(value) == Some("Yes");
        worst = match (worst, seconds.map(Duration::from_secs)) {
            (Lag::Stopped, _) => Lag::Stopped,
            (worst, None) if applies && !primary_answers => worst,
            (_, None) => Lag::Stopped,
            (Lag::By(before), Some(lag)) => Lag::By(before.max(lag)),
            (Lag::Unknown, Some(lag)) => Lag::By(lag),
        };
    }
    Ok(worst)
}

async fn heartbeat(
    link: &mut Link,
    table: &str,
    column: &str,
    primary_answers: bool,
) -> Result<Lag, ConnectError> {
    let table = table.replace('.', "`.`");
    let statement = format!(
        "SELECT TIMESTAMPDIFF(MICROSECOND, MAX(`{column}`), UTC_TIMESTAMP(6)) FROM `{table}`"
    );
    let rows = rows(link, &statement).await?.rows;
    let value = rows.into_iter().flatten().next().flatten();
    let microseconds = value.and_then(|value| String::from_utf8(value).ok()?.parse::<i64>().ok());
    if !primary_answers {
        return Ok(Lag::Unknown);
    }
    // Clocks differ; and a table in which nobody has noted anything says nothing good.
    let lag = |microseconds| Duration::from_micros(u64::try_from(microseconds).unwrap_or(0));
    Ok(microseconds.map_or(Lag::Stopped, |microseconds| Lag::By(lag(microseconds))))
}

/// Runs a statement that gives one result.
async fn rows(link: &mut Link, sql: &str) -> Result<Rows, ConnectError> {
    let mut packet = BytesMut::new();
    put_packet(&mut packet, 0, &[&[CommandCode::QUERY.0], sql.as_bytes()].concat());
    link.io.write_all(&packet).await?;
    link.io.flush().await?;
    let mut read = BytesMut::new();
    let first = read_message(&mut link.io, &mut read, LIMIT).await?.payload();
    let columns = match first.first() {
        Some(0xFF) => return Err(ConnectError::Refused(ErrPacket::decode(&first)?)),
        Some(&count @ 1..=0xFA) => usize::from(count),
        _ => return Err(odd("no rows where there should be some")),
    };
    let mut result = Rows { names: Vec::new(), rows: Vec::new() };
    for _ in 0..columns {
        let column = read_message(&mut link.io, &mut read, LIMIT).await?.payload();
        result.names.push(Column::decode(&column, link.key.capabilities)?.name);
    }
    // EOF: the login has not asked to leave it out.
    read_message(&mut link.io, &mut read, LIMIT).await?;
    loop {
        let payload = read_message(&mut link.io, &mut read, LIMIT).await?.payload();
        match payload.first() {
            Some(0xFE) if payload.len() < 9 => return Ok(result),
            Some(0xFF) => return Err(ConnectError::Refused(ErrPacket::decode(&payload)?)),
            _ => {}
        }
        let row = row::decode_text(&payload, columns)?.into_iter().map(|value| match value {
            Value::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        });
        result.rows.push(row.collect());
    }
}

fn odd(text: &str) -> ConnectError {
    ConnectError::Protocol(text.to_owned())
}
