//! What happens where a session's log would grow beyond its limits.

use super::SessionCommands;
use crate::{
    Config, Overflow,
    log::Log,
    plan::Plan,
    ties::{Cause, Change},
};
use chain::{Command, Error, Result, error::code};
use wire::command::CommandCode;

impl SessionCommands {
    /// Whether the session prepares more than it may.
    pub(super) fn is_over_limit(&self, command: &Command) -> bool {
        command.code() == CommandCode::STMT_PREPARE
            && self.log.prepared_bytes + command.payload().len() > self.config.max_prepared_bytes
    }

    /// Makes room for what the plan would add, as configured.
    pub(super) fn overflow(&mut self, plan: &mut Plan) -> Result<()> {
        if plan.entries.is_empty() || self.ties.has(Cause::FullLog) {
            return Ok(());
        }
        let bytes: usize = plan.entries.iter().map(|entry| entry.payload.len()).sum();
        let Config { max_entries, max_bytes, overflow, .. } = *self.config;
        let full = |log: &Log| {
            log.plain + plan.entries.len() > max_entries || log.bytes + bytes > max_bytes
        };
        if !full(&self.log) {
            return Ok(());
        }
        match overflow {
            Overflow::Close => {
                let text = "this session has set more than the proxy keeps";
                Err(Error::client(text).with_code(code::FILTER, *b"HY000"))
            }
            Overflow::ForgetOldest => {
                while full(&self.log) && self.log.forget_oldest() {}
                Ok(())
            }
            Overflow::Pin => {
                tracing::warn!("the log of a session is full: it stays where it is from now on");
                plan.ties.push(Change::tie(Cause::FullLog));
                Ok(())
            }
        }
    }
}
