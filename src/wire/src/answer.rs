//! Replies made here instead of by a server: for filters that answer by themselves, and for tests.

use crate::{
    Capabilities, EofPacket, ErrPacket, OkPacket, Status, column::Column, packet::put_packet, put,
    row,
};
use bytes::{Bytes, BytesMut};

/// Writes the packets of a reply one after the other, numbered.
#[derive(Debug)]
pub struct Answer {
    caps: Capabilities,
    seq: u8,
    out: BytesMut,
}

impl Answer {
    /// A reply for a session with these capabilities. `seq` is the sequence id after the command's
    /// last packet: 1 for a command of less than 16 MiB.
    #[must_use]
    pub fn new(caps: Capabilities, seq: u8) -> Self {
        Self { caps, seq, out: BytesMut::new() }
    }

    /// Appends OK.
    #[must_use]
    pub fn ok(mut self, ok: &OkPacket) -> Self {
        let caps = self.caps;
        self.packet(|out| ok.encode(out, caps));
        self
    }

    /// Appends ERR.
    #[must_use]
    pub fn err(mut self, err: &ErrPacket) -> Self {
        self.packet(|out| err.encode(out));
        self
    }

    /// Appends any payload.
    #[must_use]
    pub fn payload(mut self, payload: &[u8]) -> Self {
        self.seq = put_packet(&mut self.out, self.seq, payload);
        self
    }

    /// Appends a result set of the text protocol; `None` is NULL. Rows should have as many values as
    /// there are columns.
    #[must_use]
    pub fn text_rows<R, V>(
        mut self,
        columns: &[Column],
        rows: impl IntoIterator<Item = R>,
        status: Status,
    ) -> Self
    where
        R: IntoIterator<Item = Option<V>>,
        V: AsRef<[u8]>,
    {
        self = self.columns(columns, status);
        for row in rows {
            self.packet(|out| row::encode_text(row, out));
        }
        self.end_rows(status)
    }

    /// Appends the head of a result set: the number of columns and their definitions.
    #[must_use]
    pub fn columns(mut self, columns: &[Column], status: Status) -> Self {
        let caps = self.caps;
        let optional = Capabilities::OPTIONAL_RESULTSET_METADATA | Capabilities::CACHE_METADATA;
        self.packet(|out| {
            put::int(out, columns.len() as u64);
            if caps.intersects(optional) {
                out.extend_from_slice(&[1]);
            }
        });
        for column in columns {
            self.packet(|out| column.encode(out, caps));
        }
        if caps.contains(Capabilities::DEPRECATE_EOF) { self } else { self.end_rows(status) }
    }

    /// Appends what ends rows: EOF, or OK in its place.
    #[must_use]
    pub fn end_rows(mut self, status: Status) -> Self {
        let caps = self.caps;
        self.packet(|out| {
            if caps.contains(Capabilities::DEPRECATE_EOF) {
                OkPacket { status, ..OkPacket::default() }.encode_as_eof(out, caps);
            } else {
                EofPacket { status, warnings: 0 }.encode(out);
            }
        });
        self
    }

    /// The sequence id that comes next.
    #[must_use]
    pub fn next_seq(&self) -> u8 {
        self.seq
    }

    /// The packets, headers included.
    #[must_use]
    pub fn finish(self) -> Bytes {
        self.out.freeze()
    }

    fn packet(&mut self, write: impl FnOnce(&mut BytesMut)) {
        let mut payload = BytesMut::new();
        write(&mut payload);
        self.seq = put_packet(&mut self.out, self.seq, &payload);
    }
}
