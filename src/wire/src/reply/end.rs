//! How a reply ended, read from the packets that are kept.

use super::{Expect, Part, ReplyError, ReplyScanner};
use crate::{
    Capabilities, CommandCode, DecodeError, EofPacket, Status, command::statement::PrepareOk, err,
    ok::OkParts, read::Reader,
};

/// How a reply ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplyEnd {
    /// Wire length of the last message, headers included; 0 if the reply has none.
    pub terminator: usize,
    /// The server's status; `None` where no packet carries it. An ERR does not: behind the results of
    /// other statements it is what the last of them said.
    pub status: Option<Status>,
    /// The error, if the reply ended with one.
    pub error: Option<ErrHead>,
    /// Number of warnings.
    pub warnings: u16,
    /// Whether any OK packet of the reply reported a change of session state.
    pub tracked: bool,
}

/// An error's number and SQLSTATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrHead {
    /// The error's number.
    pub code: u16,
    /// The five characters of its SQLSTATE; `HY000` if the packet has none.
    pub sqlstate: [u8; 5],
}

/// The code of an ERR packet that reports progress instead (MariaDB).
const PROGRESS: u16 = 0xFFFF;

impl ReplyScanner {
    /// Draws the conclusions from a message that was kept.
    pub(super) fn finish(&mut self, part: Part) -> Result<(), ReplyError> {
        match part {
            Part::Ok => {
                let status = self.read_ok()?;
                self.end_result(status);
            }
            Part::Eof => {
                let EofPacket { warnings, status } = EofPacket::decode(&self.kept.bytes)?;
                self.end.warnings = warnings;
                self.end_eof(status);
            }
            Part::Err => {
                let error = ErrHead::decode(&self.kept.bytes)?;
                let reports = self.caps.contains(Capabilities::PROGRESS);
                if !(reports && error.code == PROGRESS) {
                    self.end.error = Some(error);
                    let said = self.end.status;
                    self.end.status = said.map(|it| it.difference(Status::MORE_RESULTS_EXISTS));
                    self.end_reply();
                }
            }
            Part::Count => (self.rows, self.expect) = (0, self.read_count()?),
            Part::Prepared => {
                let prepared = PrepareOk::decode(&self.kept.bytes, self.caps)?;
                self.end.warnings = prepared.warnings;
                self.prepared = Some(prepared);
                self.expect_definitions(prepared.parameters, prepared.columns);
            }
            Part::Text => self.end_reply(),
            Part::Upload => {}
        }
        Ok(())
    }

    fn read_ok(&mut self) -> Result<Status, DecodeError> {
        let parts = if self.kept.cut {
            OkParts::decode_numbers(&self.kept.bytes)?
        } else {
            OkParts::decode(&self.kept.bytes, self.caps)?
        };
        self.end.warnings = parts.warnings;
        if parts.status.contains(Status::SESSION_STATE_CHANGED) {
            self.end.tracked = true;
            self.session_state.add(parts.state);
            self.session_state.cut |= self.kept.cut;
        }
        Ok(parts.status)
    }

    /// An EOF: behind column definitions, or behind rows.
    fn end_eof(&mut self, status: Status) {
        match self.expect {
            // Where a cursor was opened this EOF is the only one.
            Expect::ColumnsEnd if !self.opens_cursor(status) => {
                // Behind the row of OUT parameters MySQL's EOF does not say again that more follows.
                let out_params = Status::PS_OUT_PARAMS | Status::MORE_RESULTS_EXISTS;
                self.more_promised = status.contains(out_params);
                self.expect = Expect::Rows;
            }
            Expect::DefinitionsEnd(then) => {
                self.end.status = Some(status);
                self.expect_definitions(then, 0);
            }
            _ => self.end_result(status),
        }
    }

    /// A procedure's own cursors set the flag too, but its result sets are followed by more results.
    fn opens_cursor(&self, status: Status) -> bool {
        self.cursor
            && status.contains(Status::CURSOR_EXISTS)
            && !status.contains(Status::MORE_RESULTS_EXISTS)
    }

    /// One result is complete; another may follow.
    fn end_result(&mut self, status: Status) {
        self.end.status = Some(status);
        let several = matches!(
            self.command,
            CommandCode::QUERY | CommandCode::STMT_EXECUTE | CommandCode::STMT_BULK_EXECUTE
        );
        let promised = std::mem::take(&mut self.more_promised);
        if several && (promised || status.contains(Status::MORE_RESULTS_EXISTS)) {
            self.expect = Expect::Response;
        } else {
            self.end_reply();
        }
    }

    fn end_reply(&mut self) {
        self.expect = Expect::Nothing;
        self.end.terminator = self.message_len;
    }

    /// The number of columns, and whether their definitions follow.
    fn read_count(&self) -> Result<Expect, DecodeError> {
        let mut r = Reader::new(&self.kept.bytes);
        let columns = r.int("column count")?;
        if columns == 0 {
            return Err(DecodeError::Invalid("column count"));
        }
        let optional = Capabilities::OPTIONAL_RESULTSET_METADATA | Capabilities::CACHE_METADATA;
        let follow = !self.caps.intersects(optional) || r.peek() != Some(0);
        Ok(if follow { Expect::Columns(columns) } else { Expect::columns_end(self.caps) })
    }

    /// Expects so many definitions of a prepared statement, and then so many. Where the server
    /// leaves them out it does send the EOFs behind them.
    fn expect_definitions(&mut self, first: u16, then: u16) {
        let follow = self.prepared.is_some_and(|prepared| prepared.metadata_follows);
        let with_eof = !self.caps.contains(Capabilities::DEPRECATE_EOF);
        self.expect = match Expect::definitions(first, then) {
            Expect::Definitions(..) if !follow && !with_eof => Expect::Nothing,
            Expect::Definitions(_, then) if !follow => Expect::DefinitionsEnd(then),
            expect => expect,
        };
        if self.expect == Expect::Nothing {
            self.end_reply();
        }
    }
}

impl ErrHead {
    /// Of a payload of which the beginning is there; without a number if that is cut short.
    pub(crate) fn or_general(payload: &[u8]) -> Self {
        Self::decode(payload).unwrap_or(Self { code: 0, sqlstate: err::GENERAL_STATE })
    }

    fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        r.u8("ERR header")?;
        let code = r.u16("error code")?;
        let mut sqlstate = err::GENERAL_STATE;
        if r.peek() == Some(b'#') && r.len() >= 6 {
            r.u8("SQLSTATE marker")?;
            sqlstate = r.array("SQLSTATE")?;
        }
        Ok(Self { code, sqlstate })
    }
}
