//! What may come next in a reply, and what the next packet is.

use crate::{Capabilities, CommandCode, eof, err, ok, packet::MAX_PAYLOAD};

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// The first packet of a result.
    Response,
    /// So many column definitions of a result set.
    Columns(u64),
    /// The EOF behind them.
    ColumnsEnd,
    /// Rows, or their end.
    Rows,
    /// The counts of a prepared statement.
    Prepared,
    /// So many definitions of parameters or columns of a prepared statement, and then so many.
    Definitions(u16, u16),
    /// The EOF behind them, and then so many.
    DefinitionsEnd(u16),
    /// One OK, EOF or ERR.
    Single,
    /// One packet of text.
    Text,
    /// Any packets until OK, EOF or ERR: commands that this crate does not know.
    Any,
    /// Events until EOF or ERR.
    Events,
    /// The reply has ended.
    Nothing,
}

/// What a packet is that is kept because it means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Ok,
    Eof,
    Err,
    /// The request for a file.
    Upload,
    /// The number of columns of a result set.
    Count,
    /// The counts of a prepared statement.
    Prepared,
    /// A packet of text.
    Text,
}

impl Expect {
    /// What begins the reply to a command.
    pub(super) fn first(command: CommandCode) -> Self {
        match command {
            c if !c.has_reply() => Self::Nothing,
            CommandCode::QUERY
            | CommandCode::STMT_EXECUTE
            | CommandCode::STMT_BULK_EXECUTE
            | CommandCode::PROCESS_INFO => Self::Response,
            CommandCode::STMT_PREPARE => Self::Prepared,
            // Column definitions and fetched rows end as rows do.
            CommandCode::FIELD_LIST | CommandCode::STMT_FETCH => Self::Rows,
            CommandCode::STATISTICS => Self::Text,
            CommandCode::BINLOG_DUMP | CommandCode::BINLOG_DUMP_GTID => Self::Events,
            CommandCode::INIT_DB
            | CommandCode::CREATE_DB
            | CommandCode::DROP_DB
            | CommandCode::REFRESH
            | CommandCode::SHUTDOWN
            | CommandCode::PROCESS_KILL
            | CommandCode::DEBUG
            | CommandCode::PING
            | CommandCode::REGISTER_SLAVE
            | CommandCode::STMT_RESET
            | CommandCode::SET_OPTION
            | CommandCode::RESET_CONNECTION => Self::Single,
            _ => Self::Any,
        }
    }

    /// What a message is, by the first byte of its payload and the length of its first packet;
    /// `None` if it only passes. The error says what was awaited.
    pub(super) fn part(
        self,
        first: Option<u8>,
        len: usize,
        caps: Capabilities,
    ) -> Result<Option<Part>, &'static str> {
        if first == Some(err::HEADER) {
            return Ok(Some(Part::Err));
        }
        let end = if first == Some(eof::HEADER) { end_part(len, caps) } else { None };
        match self {
            Self::Rows | Self::Events => Ok(end),
            Self::Any if first == Some(ok::HEADER) => Ok(Some(Part::Ok)),
            Self::Any => Ok(end),
            Self::Columns(_) | Self::Definitions(..) if end.is_none() => Ok(None),
            Self::Columns(_) | Self::Definitions(..) => Err("a column definition was due"),
            Self::ColumnsEnd | Self::DefinitionsEnd(_) => match end {
                Some(_) => Ok(end),
                None => Err("EOF was due behind column definitions"),
            },
            Self::Prepared if first == Some(ok::HEADER) => Ok(Some(Part::Prepared)),
            Self::Prepared => Err("the counts of a prepared statement were due"),
            Self::Text => Ok(Some(Part::Text)),
            Self::Single | Self::Response if first == Some(ok::HEADER) => Ok(Some(Part::Ok)),
            Self::Single | Self::Response if end.is_some() => Ok(end),
            Self::Response if first == Some(UPLOAD) => Ok(Some(Part::Upload)),
            Self::Response if first.is_some() => Ok(Some(Part::Count)),
            Self::Single | Self::Response => Err("OK, EOF or ERR was due"),
            Self::Nothing => Err("nothing was due"),
        }
    }

    /// What may come after a message without a meaning of its own.
    pub(super) fn passed(self, caps: Capabilities) -> Self {
        let without_eof = caps.contains(Capabilities::DEPRECATE_EOF);
        match self {
            Self::Columns(left) if left > 1 => Self::Columns(left - 1),
            Self::Columns(_) => Self::columns_end(caps),
            Self::Definitions(left, then) if left > 1 => Self::Definitions(left - 1, then),
            Self::Definitions(_, then) if without_eof => Self::definitions(then, 0),
            Self::Definitions(_, then) => Self::DefinitionsEnd(then),
            other => other,
        }
    }

    /// What comes behind the column definitions of a result set.
    pub(super) fn columns_end(caps: Capabilities) -> Self {
        if caps.contains(Capabilities::DEPRECATE_EOF) { Self::Rows } else { Self::ColumnsEnd }
    }

    /// The definitions that follow, if any.
    pub(super) fn definitions(first: u16, then: u16) -> Self {
        match (first, then) {
            (0, 0) => Self::Nothing,
            (0, then) => Self::Definitions(then, 0),
            (first, then) => Self::Definitions(first, then),
        }
    }
}

const UPLOAD: u8 = 0xFB;

/// What a packet is that begins with 0xFE: EOF, OK in its place, or `None`, a row whose first
/// value is of 16 MiB or more.
///
/// EOF has 5 bytes, and old clients tell it by less than 9; an OK has at least 7, and such a row
/// fills its first packet.
fn end_part(len: usize, caps: Capabilities) -> Option<Part> {
    let in_place_of_eof = caps.contains(Capabilities::DEPRECATE_EOF);
    match len {
        0..7 => Some(Part::Eof),
        7..9 if !in_place_of_eof => Some(Part::Eof),
        7..MAX_PAYLOAD if in_place_of_eof => Some(Part::Ok),
        _ => None,
    }
}
