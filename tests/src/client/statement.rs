//! Prepared statements.

use super::{Client, Reply};
use anyhow::{Context, Result};
use wire::{CommandCode, ReplyScanner, column::kind};

/// A prepared statement of one connection.
#[derive(Debug)]
pub struct Statement {
    /// The other side's id for it.
    pub id: u32,
    parameters: u16,
    /// The reply to COM_STMT_PREPARE, its id put to zero: two connections need not count alike.
    pub reply: Reply,
}

impl Client {
    /// COM_STMT_PREPARE. An ERR is a [`Statement`] too, of no use but to look at.
    pub fn prepare(&mut self, sql: &str) -> Result<Statement> {
        let mut reply = self.command(CommandCode::STMT_PREPARE, sql.as_bytes())?;
        let (mut id, mut parameters) = (0, 0);
        if let Some(prepared) = reply.prepared {
            (id, parameters) = (prepared.id, prepared.parameters);
            // header, 0x00, id
            reply.raw.get_mut(5..9).context("a short reply")?.fill(0);
        }
        Ok(Statement { id, parameters, reply })
    }

    /// COM_STMT_EXECUTE with strings for parameters; `None` is NULL. `flags` are the cursor's.
    pub fn execute(
        &mut self,
        statement: &Statement,
        flags: u8,
        parameters: &[Option<&[u8]>],
    ) -> Result<Reply> {
        let mut body = statement.execute_head(flags);
        if !parameters.is_empty() {
            let mut nulls = vec![0u8; parameters.len().div_ceil(8)];
            for (n, _) in parameters.iter().enumerate().filter(|(_, value)| value.is_none()) {
                nulls[n / 8] |= 1 << (n % 8);
            }
            body.extend(nulls);
            body.push(1); // types follow
            for value in parameters {
                body.extend([if value.is_some() { kind::VAR_STRING } else { kind::NULL }, 0]);
            }
            for value in parameters.iter().flatten() {
                put_length(&mut body, value.len());
                body.extend_from_slice(value);
            }
        }
        self.send_command(CommandCode::STMT_EXECUTE, &body)?;
        let scanner = ReplyScanner::new(CommandCode::STMT_EXECUTE, self.capabilities);
        self.scan(scanner.with_cursor(flags != 0), None)
    }

    /// COM_STMT_EXECUTE after all parameters have been sent by [`Client::long_data`].
    pub fn execute_with_long_data(&mut self, statement: &Statement) -> Result<Reply> {
        let parameters = usize::from(statement.parameters);
        let mut body = statement.execute_head(0);
        body.extend(vec![0u8; parameters.div_ceil(8)]);
        body.push(1); // types follow
        body.extend([kind::BLOB, 0].repeat(parameters));
        self.command(CommandCode::STMT_EXECUTE, &body)
    }

    /// COM_STMT_SEND_LONG_DATA, which has no reply.
    pub fn long_data(&mut self, statement: &Statement, parameter: u16, data: &[u8]) -> Result<()> {
        let id = statement.id.to_le_bytes();
        let body = [&id[..], &parameter.to_le_bytes(), data].concat();
        self.send_command(CommandCode::STMT_SEND_LONG_DATA, &body)
    }

    /// COM_STMT_FETCH.
    pub fn fetch(&mut self, statement: &Statement, rows: u32) -> Result<Reply> {
        let body = [statement.id.to_le_bytes(), rows.to_le_bytes()].concat();
        self.command(CommandCode::STMT_FETCH, &body)
    }

    /// A command whose body is the statement's id.
    pub fn statement_command(&mut self, code: CommandCode, statement: &Statement) -> Result<Reply> {
        self.command(code, &statement.id.to_le_bytes())
    }

    /// COM_STMT_CLOSE, which has no reply.
    pub fn close_statement(&mut self, statement: &Statement) -> Result<()> {
        self.send_command(CommandCode::STMT_CLOSE, &statement.id.to_le_bytes())
    }
}

impl Statement {
    /// The number that its connection knows it by.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// How many parameters it takes.
    pub fn parameters(&self) -> u16 {
        self.parameters
    }

    fn execute_head(&self, flags: u8) -> Vec<u8> {
        let mut body = self.id.to_le_bytes().to_vec();
        body.push(flags);
        body.extend(1u32.to_le_bytes()); // iterations
        body
    }
}

/// A length-encoded integer.
fn put_length(out: &mut Vec<u8>, length: usize) {
    let bytes = (length as u64).to_le_bytes();
    match length {
        0..=250 => out.push(length as u8),
        251..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xFE);
            out.extend_from_slice(&bytes);
        }
    }
}
