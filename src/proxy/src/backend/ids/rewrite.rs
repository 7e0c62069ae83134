//! A statement in which the session's id stands in for calls of CONNECTION_ID().

use super::spell;
use crate::backend::connect::Vendor;
use bytes::Bytes;
use memchr::memmem;
use sql::{ConnectionId, Span};
use wire::column::{Column, kind};

/// A statement's text as the client sent it, and as the server gets it. Both are of one length.
pub(in crate::backend) struct Rewrite {
    theirs: Bytes,
    pub(in crate::backend) ours: Bytes,
    /// Where they differ.
    places: Vec<Span>,
    /// What stood there were counts: BIGINTs of this many characters at most.
    counts: bool,
}

/// What servers say of the columns `ROW_COUNT()` and `FOUND_ROWS()`.
const COUNT_LENGTH: u32 = 21;

impl Rewrite {
    pub(super) fn new(text: Bytes, read: &[ConnectionId], vendor: Vendor, id: u32) -> Self {
        let mut ours = text.to_vec();
        for place in read {
            spell::put(&mut ours, place, vendor, id);
        }
        let places = read.iter().map(|place| match place {
            ConnectionId::Call { name, close, .. } => name.start..close + 1,
            ConnectionId::Variable(span) => span.clone(),
        });
        Self { theirs: text, ours: ours.into(), places: places.collect(), counts: false }
    }

    /// Counts in place of calls; the text keeps its length.
    pub(in crate::backend) fn of(theirs: Bytes, ours: Bytes, places: Vec<Span>) -> Self {
        Self { theirs, ours, places, counts: true }
    }

    /// Makes a column whose name has been restored what a call alone would have been.
    pub(super) fn restore_type(&self, column: &mut Column) {
        let is_call = |place: &Span| column.name == self.theirs[place.clone()];
        if self.counts && self.places.iter().any(is_call) {
            (column.kind, column.length) = (kind::LONGLONG, COUNT_LENGTH);
            column.flags &= !Column::UNSIGNED;
        }
    }

    /// Puts the client's words back into the name of a column that the server made of its
    /// expression. `from` is where to look first, as columns come in the text's order.
    pub(super) fn restore_name(&self, name: &mut [u8], from: &mut usize) {
        let finder = memmem::Finder::new(name);
        if !self.places.iter().any(|place| memmem::find(name, &self.ours[place.clone()]).is_some())
        {
            return;
        }
        let found = |from: usize| finder.find(self.ours.get(from..)?).map(|at| from + at);
        let Some(at) = found(*from).or_else(|| found(0)) else {
            return self.restore_places(name);
        };
        *from = at + name.len();
        name.copy_from_slice(&self.theirs[at..at + name.len()]);
    }

    /// Puts the client's words back into the text of an error.
    pub(super) fn restore_message(&self, message: &mut [u8]) {
        // A syntax error quotes the rest of the statement, up to 80 characters.
        let quoted = memmem::find(message, b"near '").map(|at| at + 6);
        let piece = quoted.and_then(|start| {
            let length = memmem::rfind(&message[start..], b"' at line ")?;
            Some(start..start + length)
        });
        if let Some(piece) = piece
            && let Some(at) = memmem::find(&self.ours, &message[piece.clone()])
        {
            let theirs = &self.theirs[at..at + piece.len()];
            message[piece].copy_from_slice(theirs);
            return;
        }
        self.restore_places(message);
    }

    fn restore_places(&self, text: &mut [u8]) {
        for place in &self.places {
            if let Some(at) = memmem::find(text, &self.ours[place.clone()]) {
                text[at..at + place.len()].copy_from_slice(&self.theirs[place.clone()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rewrite;
    use crate::backend::{connect::Vendor, ids::spell};
    use bytes::Bytes;
    use sql::{Dialect, connection_ids};

    fn rewritten(text: &'static str, vendor: Vendor) -> Rewrite {
        let id = (1_u32 << 31..).find(|id| spell::letters(*id).is_some()).unwrap();
        let read = connection_ids(text.as_bytes(), Dialect::default()).read;
        Rewrite::new(Bytes::from_static(text.as_bytes()), &read, vendor, id)
    }

    #[test]
    fn names_come_back_as_the_client_wrote_them() {
        let text = "SELECT CONNECTION_ID(), connection_id(), CONNECTION_ID ( )+1, N, (id)";
        for vendor in [Vendor::MySql, Vendor::MariaDb] {
            let rewrite = rewritten(text, vendor);
            let ours = std::str::from_utf8(&rewrite.ours).unwrap().to_owned();
            let mut from = 0;
            for at in [7..22, 24..39, 41..59, 61..62, 64..68] {
                let mut name = ours.as_bytes()[at.clone()].to_vec();
                rewrite.restore_name(&mut name, &mut from);
                assert_eq!(std::str::from_utf8(&name).unwrap(), &text[at], "{ours}");
            }
        }
    }

    #[test]
    fn errors_come_back_as_the_client_wrote_them() {
        let text = "SELECT CONNECTION_ID(), FROM x WHERE CONNECTION_ID()";
        for vendor in [Vendor::MySql, Vendor::MariaDb] {
            let rewrite = rewritten(text, vendor);
            let ours = std::str::from_utf8(&rewrite.ours).unwrap();
            for (quoted, expected) in [(&ours[24..], &text[24..]), (&ours[24..44], &text[24..44])] {
                let mut message =
                    format!("right syntax to use near '{quoted}' at line 1").into_bytes();
                rewrite.restore_message(&mut message);
                let expected = format!("right syntax to use near '{expected}' at line 1");
                assert_eq!(String::from_utf8_lossy(&message), expected);
            }
            let mut message = format!("Unknown column {} in it", &ours[7..22]).into_bytes();
            rewrite.restore_message(&mut message);
            assert_eq!(message, b"Unknown column CONNECTION_ID() in it");
        }
    }
}
