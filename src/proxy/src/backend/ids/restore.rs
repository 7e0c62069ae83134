//! The reply to a rewritten statement: what the server quotes of it is put back.

use super::rewrite::Rewrite;
use bytes::{Bytes, BytesMut};
use chain::{End, Frame};
use std::sync::Arc;
use wire::{
    capability::Capabilities,
    column::Column,
    command::CommandCode,
    packet::{HEADER_LEN, Header},
    reply::ReplyScanner,
};

/// Goes over a reply frame by frame. No length changes, so that packets stay what they are.
pub(super) struct Restorer {
    rewrite: Arc<Rewrite>,
    scanner: ReplyScanner,
    capabilities: Capabilities,
    /// A column definition that has come in part.
    held: BytesMut,
    /// What is still to come of a packet that passes as it is.
    passing: usize,
    /// Where in the text the last column's name was found.
    from: usize,
}

/// The bytes of an ERR before its message: header, code, SQLSTATE.
const BEFORE_MESSAGE: usize = HEADER_LEN + 9;

impl Restorer {
    pub(super) fn new(
        rewrite: Arc<Rewrite>,
        command: CommandCode,
        capabilities: Capabilities,
        with_cursor: bool,
    ) -> Self {
        let scanner = ReplyScanner::new(command, capabilities).with_cursor(with_cursor);
        Self { rewrite, scanner, capabilities, held: BytesMut::new(), passing: 0, from: 0 }
    }

    /// The next frame, restored. A run may be shorter than what came, and the one behind it longer.
    pub(super) fn frame(&mut self, frame: Frame) -> Frame {
        match frame {
            Frame::Packets(run) => Frame::Packets(self.packets(&run)),
            Frame::Upload(upload) => {
                self.pass(&upload.request);
                Frame::Upload(upload)
            }
            Frame::End(end) => Frame::End(self.end(end)),
        }
    }

    /// The end of the reply, restored.
    pub(super) fn end(&self, end: End) -> End {
        if end.error.is_none() {
            return end;
        }
        let mut packet = BytesMut::from(&end.packet[..]);
        if let Some(message) = packet.get_mut(BEFORE_MESSAGE..) {
            self.rewrite.restore_message(message);
        }
        End { packet: packet.freeze(), ..end }
    }

    /// The statement's id, once COM_STMT_PREPARE has been answered.
    pub(super) fn statement_id(&self) -> Option<u32> {
        self.scanner.prepared().map(|prepared| prepared.id)
    }

    /// Whole packets, or parts of them, restored.
    pub(super) fn packets(&mut self, run: &[u8]) -> Bytes {
        let mut run = match self.held.is_empty() {
            true => BytesMut::from(run),
            false => {
                self.held.extend_from_slice(run);
                self.held.split()
            }
        };
        let mut at = 0;
        loop {
            let rest = &run[at..];
            if self.passing > 0 {
                let passed = self.passing.min(rest.len());
                self.pass(&run[at..at + passed]);
                (at, self.passing) = (at + passed, self.passing - passed);
                if self.passing > 0 {
                    break;
                }
                continue;
            }
            let Some(header) = Header::parse(rest) else { break };
            let length = HEADER_LEN + header.len;
            if !self.scanner.at_definition() {
                self.passing = length;
                continue;
            }
            if rest.len() < length {
                break;
            }
            self.pass(&run[at..at + length]);
            self.definition(&mut run[at + HEADER_LEN..at + length]);
            at += length;
        }
        self.held = run.split_off(at);
        run.freeze()
    }

    fn pass(&mut self, bytes: &[u8]) {
        // The connection below has found the reply in order with a scanner of its own.
        let _ = self.scanner.scan(bytes);
    }

    fn definition(&mut self, payload: &mut [u8]) {
        let Ok(mut column) = Column::decode(payload, self.capabilities) else { return };
        // In a union the original name is the same.
        let mut from = self.from;
        self.rewrite.restore_name(&mut column.org_name, &mut from);
        self.rewrite.restore_name(&mut column.name, &mut self.from);
        self.rewrite.restore_type(&mut column);
        let mut restored = BytesMut::with_capacity(payload.len());
        column.encode(&mut restored, self.capabilities);
        if restored.len() == payload.len() {
            payload.copy_from_slice(&restored);
        }
    }
}
