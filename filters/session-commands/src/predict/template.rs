//! A server's reply to a session command, in the form in which it can be given again.

use bytes::{BufMut, Bytes, BytesMut};
use chain::{Answer, Body, Command, End, Reply};
use std::fmt;
use wire::{
    capability::Capabilities,
    command::statement::PrepareOk,
    eof,
    ok::OkPacket,
    packet::{HEADER_LEN, Header},
    session_state::Tracker,
    status::Status,
};

/// A whole reply that is the same each time: an OK, or the reply to COM_STMT_PREPARE without its id.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Template {
    /// All packets, headers included, counted from 1; a statement's id is 0.
    packets: Bytes,
    /// So many bytes of them are the packet that ends the reply.
    last: usize,
    status: Option<Status>,
    tracked: bool,
    session_state: Bytes,
    pub(crate) form: Form,
}

/// What kind of reply it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// One OK packet.
    Ok,
    /// A statement with so many parameters.
    Prepared {
        /// Its number of parameters.
        parameters: u16,
    },
}

/// How another server's reply to the same command differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Not at all.
    Same,
    /// In what follows from the rest of the session's state, which may be another by now.
    Ambient,
    /// In warnings, texts, or how it was executed: the session is in the same state.
    Soft,
    /// What the command has set is another value there.
    Values,
    /// The statement has other columns.
    Columns,
    /// The statement has another number of parameters.
    Parameters,
}

/// Longest reply that is kept, in bytes.
pub(crate) const LONGEST: usize = 16 * 1024;

/// Status flags that say how a statement was executed, that more follows, or what is true only once.
const NOISE: Status = Status(
    Status::MORE_RESULTS_EXISTS.0
        | Status::NO_GOOD_INDEX_USED.0
        | Status::NO_INDEX_USED.0
        | Status::CURSOR_EXISTS.0
        | Status::LAST_ROW_SENT.0
        | Status::DB_DROPPED.0
        | Status::METADATA_CHANGED.0
        | Status::QUERY_WAS_SLOW.0
        | Status::PS_OUT_PARAMS.0
        | Status::IN_TRANS.0
        | Status::IN_TRANS_READONLY.0,
);

/// Status flags that are the session's and not the command's.
const AMBIENT: u16 = Status::AUTOCOMMIT.0 | Status::NO_BACKSLASH_ESCAPES.0 | Status::ANSI_QUOTES.0;

impl Template {
    /// What of `answer` can be given again. `None` if nothing can: an error, a reply that says how
    /// the command was executed, one with warnings (unless they are `welcome`), one that is too
    /// long, or one that cannot be read.
    pub(crate) fn of(
        answer: &Answer,
        prepares: bool,
        capabilities: Capabilities,
        welcome: bool,
    ) -> Option<Self> {
        let (head, last) = (&answer.packets, &answer.end.packet);
        if answer.end.error.is_some() || head.len() + last.len() > LONGEST {
            return None;
        }
        if answer.end.status.is_some_and(|status| status.0 & NOISE.0 != 0) {
            return None;
        }
        let mut packets = BytesMut::with_capacity(head.len() + last.len());
        packets.extend_from_slice(head);
        packets.extend_from_slice(last);
        count_from(&mut packets, 1)?;
        let payload = packets.get(HEADER_LEN..)?;
        let form = if prepares {
            let ok = PrepareOk::decode(payload, capabilities).ok()?;
            if ok.warnings != 0 && !welcome {
                return None;
            }
            packets.get_mut(ID)?.fill(0);
            Form::Prepared { parameters: ok.parameters }
        } else {
            let ok = OkPacket::decode(payload, capabilities).ok()?;
            let plain = ok.affected_rows == 0 && ok.last_insert_id == 0;
            if !plain || (ok.warnings != 0 && !welcome) || !head.is_empty() {
                return None;
            }
            Form::Ok
        };
        Some(Self {
            packets: packets.freeze(),
            last: last.len(),
            status: answer.end.status,
            tracked: answer.end.tracked,
            // A copy: what stays for long must not keep a larger buffer.
            session_state: Bytes::copy_from_slice(&answer.end.session_state),
            form,
        })
    }

    /// The reply to `command`, for a statement with this id.
    pub(crate) fn reply(&self, command: &Command, id: Option<u32>) -> Reply {
        let mut packets = BytesMut::from(&self.packets[..]);
        if command.reply_seq() != 1 {
            // It was read when it was kept.
            let _ = count_from(&mut packets, command.reply_seq());
        }
        if let (Form::Prepared { .. }, Some(id)) = (self.form, id) {
            packets[ID].copy_from_slice(&id.to_le_bytes());
        }
        let packet = packets.split_off(packets.len() - self.last).freeze();
        let end = End {
            packet,
            status: self.status,
            error: None,
            tracked: self.tracked,
            session_state: self.session_state.clone(),
        };
        Reply::new(Body::whole(packets.freeze(), end))
    }

    /// The first packet of a reply with this id, as whoever watches the reply would have seen it.
    pub(crate) fn head(&self, id: Option<u32>, longest: usize) -> Vec<u8> {
        let mut head = self.packets[..self.packets.len().min(longest)].to_vec();
        if let (Form::Prepared { .. }, Some(id), Some(place)) = (self.form, id, head.get_mut(ID)) {
            place.copy_from_slice(&id.to_le_bytes());
        }
        head
    }

    /// The status that the reply ends with.
    pub(crate) fn status(&self) -> Option<Status> {
        self.status
    }

    /// Bytes that it takes.
    pub(crate) fn size(&self) -> usize {
        size_of::<Self>() + self.packets.len() + self.session_state.len()
    }

    /// How `other` differs from it. Both are replies to the same command, perhaps on connections
    /// that differ in what was left out of the log meanwhile.
    pub(crate) fn compare(&self, other: &Self, capabilities: Capabilities) -> Difference {
        match (self.form, other.form) {
            _ if self.packets == other.packets => Difference::Same,
            (Form::Ok, Form::Ok) => self.compare_ok(other, capabilities),
            (Form::Prepared { parameters }, Form::Prepared { parameters: there }) => {
                if parameters != there {
                    Difference::Parameters
                } else if without_status(&self.packets) == without_status(&other.packets) {
                    Difference::Ambient
                } else {
                    Difference::Columns
                }
            }
            _ => Difference::Soft,
        }
    }

    fn compare_ok(&self, other: &Self, capabilities: Capabilities) -> Difference {
        let read = |template: &Self| {
            let ok = template.packets.get(HEADER_LEN..).unwrap_or_default();
            OkPacket::decode(ok, capabilities).ok()
        };
        let (Some(here), Some(there)) = (read(self), read(other)) else { return Difference::Soft };
        if here.trackers.iter().any(|one| there.trackers.iter().any(|two| contradicts(one, two))) {
            return Difference::Values;
        }
        let state = AMBIENT | Status::SESSION_STATE_CHANGED.0;
        let plain = |ok: &OkPacket| (ok.status.0 & !state, ok.warnings, ok.info.clone());
        if plain(&here) == plain(&there) { Difference::Ambient } else { Difference::Soft }
    }
}

/// Where the id stands in the reply to COM_STMT_PREPARE, header included.
const ID: std::ops::Range<usize> = HEADER_LEN + 1..HEADER_LEN + 5;

/// Whether two servers say that the same thing has another value.
fn contradicts(one: &Tracker, two: &Tracker) -> bool {
    match (one, two) {
        (
            Tracker::SystemVariable { name, value },
            Tracker::SystemVariable { name: other, value: there },
        ) => name == other && value != there,
        (Tracker::Schema(name), Tracker::Schema(there)) => name != there,
        _ => false,
    }
}

/// Numbers the packets of a reply from `first` on. `None` if they are no whole packets.
fn count_from(packets: &mut [u8], first: u8) -> Option<()> {
    let (mut at, mut seq) = (0, first);
    while at < packets.len() {
        let header = packets.get_mut(at..at + HEADER_LEN)?;
        header[HEADER_LEN - 1] = seq;
        seq = seq.wrapping_add(1);
        at += HEADER_LEN + Header::parse(header)?.len;
    }
    (at == packets.len() && at > 0).then_some(())
}

/// The packets with the status flags of their EOF packets taken out.
fn without_status(packets: &[u8]) -> BytesMut {
    let mut out = BytesMut::with_capacity(packets.len());
    let mut rest = packets;
    while let Some(header) = rest.first_chunk::<HEADER_LEN>() {
        let len = HEADER_LEN + Header::parse(header).map_or(0, |header| header.len);
        let (packet, behind) = rest.split_at(len.min(rest.len()));
        rest = behind;
        match packet {
            [head @ .., _, _]
                if head.len() == HEADER_LEN + 3 && head[HEADER_LEN] == eof::HEADER =>
            {
                out.put_slice(head);
            }
            _ => out.put_slice(packet),
        }
    }
    out
}

/// Trackers may hold secrets, and definitions names.
impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({:?}, {} bytes)", self.form, self.packets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{Template, count_from};
    use bytes::{Bytes, BytesMut};
    use chain::{Answer, Command, End, Outcome, testing::session};
    use proptest::{collection::vec, prelude::*};
    use wire::{
        capability::Capabilities, command::CommandCode, packet::put_packet, status::Status,
    };

    fn given(template: &Template, id: u32) -> Answer {
        let command = Command::new(session(), CommandCode::STMT_PREPARE, "SELECT 1");
        let Outcome::Body(body) = template.reply(&command, Some(id)).into_outcome() else {
            unreachable!("it is a body")
        };
        let mut answer = std::pin::pin!(body.collect(1 << 20));
        let waker = std::task::Waker::noop();
        let mut cx = std::task::Context::from_waker(waker);
        let std::task::Poll::Ready(answer) = answer.as_mut().poll(&mut cx) else {
            unreachable!("it is here already")
        };
        answer.expect("it ends")
    }

    proptest! {
        /// Whatever servers say, nothing panics; and what is kept is given again as it was.
        #[test]
        fn what_is_kept_is_given_again(
            payloads in vec(vec(any::<u8>(), 0..20), 0..6),
            head in prop::option::of(vec(any::<u8>(), 11..14)),
            alone in any::<bool>(),
            ends in any::<bool>(),
            status in prop::option::of(any::<u16>()),
            cut in 0..8_usize,
            prepares in any::<bool>(),
            capabilities in any::<u64>(),
        ) {
            let (mut packets, mut seq) = (BytesMut::new(), 1);
            let first = head.map(|mut head| { head[0] = 0; head });
            let rest = if alone { Vec::new() } else { payloads };
            for payload in first.iter().chain(&rest) {
                seq = put_packet(&mut packets, seq, payload);
            }
            let whole = cut > 0 || packets.is_empty();
            packets.truncate(packets.len() - if whole { 0 } else { 1 });
            let mut last = Bytes::new();
            if ends || !prepares {
                last = packets.split().freeze();
            }
            let end = End { packet: last, status: status.map(Status), ..End::default() };
            let answer = Answer { packets: packets.freeze(), end };
            let template = Template::of(&answer, prepares, Capabilities(capabilities), true);
            if let Some(template) = template {
                prop_assert!(whole);
                let again = given(&template, 7);
                prop_assert_eq!(again.end.status, answer.end.status);
                prop_assert_eq!(again.end.packet.len(), answer.end.packet.len());
                let joined = |answer: &Answer| [&answer.packets[..], &answer.end.packet].concat();
                let (here, mut there) = (joined(&again), joined(&answer));
                if prepares {
                    there[5..9].copy_from_slice(&7_u32.to_le_bytes());
                }
                prop_assert_eq!(here, there);
                prop_assert_eq!(
                    template.compare(&template, Capabilities(capabilities)),
                    super::Difference::Same
                );
            }
        }
    }

    #[test]
    fn packets_are_numbered_from_where_a_command_ends() {
        let mut packets = BytesMut::from(&[1, 0, 0, 1, 9, 0, 0, 0, 2][..]);
        assert_eq!(count_from(&mut packets, 255), Some(()));
        assert_eq!(packets[..], [1, 0, 0, 255, 9, 0, 0, 0, 0]);
        assert_eq!(count_from(&mut packets[..6], 1), None);
        assert_eq!(count_from(&mut [], 1), None);
    }
}
